package advantage

import (
	"math"
	"testing"
)

// TestTurns: actions in one state are compared there, with rewards to come that are discounted by turns; a turn alone
// has none, and one without a reward changes no other.
func TestTurns(t *testing.T) {
	o := Turns{Weight: 2, Gamma: 0.5, Scale: "none"}
	visits := []Visit{
		{0, 7, "asked", 0}, {0, 7, "crop", 0}, {0, 7, "far", 1}, // 0.25, 0.5, 1
		{1, 7, "asked", 1},                    // 1
		{2, 7, "asked", 0}, {2, 7, "crop", 0}, // 0, 0
		{3, 8, "asked", 1}, // of another prompt
	}
	want := []float64{2 * (0.25 - 1.25/3), 2 * 0.25, 0, 2 * (1 - 1.25/3), 2 * (0 - 1.25/3), -2 * 0.25, 0}
	got, err := o.Of(visits)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Errorf("turn %d has %v, not %v", i, got[i], want[i])
		}
	}
	o.Scale = "group"
	scaled, _ := o.Of(visits)
	if want := 2 * 0.25 / (0.5/math.Sqrt2 + 1e-6); math.Abs(scaled[1]-want) > 1e-12 || scaled[5] != -scaled[1] {
		t.Errorf("over their deviation two turns have %v and %v, not ±%v", scaled[1], scaled[5], want)
	}
	o.Scale = "none"
	missing := append(visits[:len(visits):len(visits)], Visit{4, 7, "asked", math.NaN()}, Visit{4, 7, "new", math.NaN()})
	with, _ := o.Of(missing)
	for i := range visits {
		if with[i] != got[i] {
			t.Errorf("turn %d has %v beside one without a reward, and %v else", i, with[i], got[i])
		}
	}
	if !math.IsNaN(with[7]) {
		t.Errorf("a turn without a reward has %v", with[7])
	}
}

// TestFirstAndDrawn: the first of the best is kept, the others are drawn, and a missing score never is.
func TestFirstAndDrawn(t *testing.T) {
	scores := []float64{0.1, math.NaN(), 0.9, 0.3, 0.9}
	for u, other := range map[float64]int{0: 0, 0.5: 3, 0.99: 4} {
		if got := FirstAndDrawn([]float64{u}, scores, 2); len(got) != 2 || !(got[0] == 2 && got[1] == other || got[1] == 2 && got[0] == other) {
			t.Errorf("by %v the samples %v are kept, not 2 and %d", u, got, other)
		}
	}
	if got := FirstAndDrawn([]float64{0.2, 0.7, 0.1, 0.1}, scores, 5); len(got) != 4 {
		t.Errorf("of four scores %v are kept", got)
	}
	if got := FirstAndDrawn(nil, []float64{math.NaN()}, 1); got != nil {
		t.Errorf("of none %v is kept", got)
	}
}
