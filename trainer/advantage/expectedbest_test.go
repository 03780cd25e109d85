package advantage

import (
	"math"
	"testing"
)

// best is the mean of the largest over all choices of k, one by one.
func best(r []float64, k int) float64 {
	sum, n := 0.0, 0.0
	for set := range 1 << len(r) {
		most, size := math.Inf(-1), 0
		for i, v := range r {
			if set>>i&1 == 1 {
				most, size = max(most, v), size+1
			}
		}
		if size == k {
			sum, n = sum+most, n+1
		}
	}
	return sum / n
}

func TestExpectedBest(t *testing.T) {
	r := []float64{0.3, -1, 2, 0.3, 0.9, 0.1}
	last := math.Inf(-1)
	for k := 1; k <= len(r); k++ {
		got := ExpectedBest([][]float64{r}, k)
		if math.Abs(got-best(r, k)) > 1e-12 || got < last {
			t.Errorf("best of %d: %v, want %v, after %v", k, got, best(r, k), last)
		}
		last = got
	}
	if last != 2 {
		t.Errorf("best of all: %v", last)
	}
	nan := math.NaN()
	if got := ExpectedBest([][]float64{{1, nan, 3}, {nan, 5, nan}}, 2); got != 3 {
		t.Errorf("groups that are too small, and missing rewards: %v", got)
	}
	if got := ExpectedBest([][]float64{{1}}, 2); !math.IsNaN(got) {
		t.Errorf("the best of two of one: %v", got)
	}
}
