package advantage

import (
	"math"
	"testing"
)

// TestTracker: the expectation converges to a constant reward, and missing rewards are not learned.
func TestTracker(t *testing.T) {
	h := History{Rho: 0.5}
	o := Options{Over: "batch", Baseline: "none", Scale: "none"}
	for range 60 {
		a, err := h.Track(o, []string{"always", "never", "missing"}, []float64{1, 0, math.NaN()})
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(a[2]) {
			t.Fatalf("a missing reward has the advantage %g", a[2])
		}
	}
	if b := h.Beliefs["always"]; math.Abs(b.expected()-1) > 1e-12 || math.Abs(b.Alpha+b.Beta-2) > 1e-12 {
		t.Errorf("after 60 successes: %+v", b)
	}
	if b := h.Beliefs["never"]; b.expected() > 1e-12 {
		t.Errorf("after 60 failures: %+v", b)
	}
	if b, ok := h.Beliefs["missing"]; ok {
		t.Errorf("a missing reward was learned: %+v", b)
	}
	// Two samples of a new prompt are compared with 1/2 both.
	a, err := h.Track(o, []string{"new", "new"}, []float64{1, 0})
	if err != nil || a[0] != 0.5 || a[1] != -0.5 {
		t.Errorf("two samples of a new prompt: %v, %v", a, err)
	}
	if b := h.Beliefs["new"]; b != (Belief{0.5*(0.25+1) + 0, 0.5*0.25 + 1}) {
		t.Errorf("they were learned as %+v", b)
	}
}

func TestTrackerRefuses(t *testing.T) {
	for _, r := range []float64{-0.1, 1.5} {
		if _, err := (&History{Rho: 0.9}).Track(Options{}, []string{"p"}, []float64{r}); err == nil {
			t.Errorf("a reward of %g passed", r)
		}
	}
	if _, err := (&History{Rho: 1}).Track(Options{}, []string{"p"}, []float64{1}); err == nil {
		t.Error("rho = 1 passed")
	}
}
