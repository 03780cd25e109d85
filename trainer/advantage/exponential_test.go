package advantage

import (
	"math"
	"testing"
)

// TestExponential: weights are e^r over their group's mean, and large rewards do not overflow.
func TestExponential(t *testing.T) {
	ids := []int{0, 0, 0, 1, 1, 2}
	a := Exponential(ids, []float64{1, 2, missingReward, 900, 901, -4})
	mean := (math.E + math.E*math.E) / 2
	for i, want := range []float64{math.E / mean, math.E * math.E / mean, missingReward, 2 / (1 + math.E), 2 * math.E / (1 + math.E), 1} {
		if !close(a[i], want) && !(math.IsNaN(a[i]) && math.IsNaN(want)) {
			t.Errorf("sample %d weighs %v, want %v", i, a[i], want)
		}
	}
	if b := Exponential(ids[:2], []float64{5, 5}); b[0] != 1 || b[1] != 1 {
		t.Errorf("equal ones weigh %v", b)
	}
}
