package advantage

import (
	"math"
	"testing"
)

// TestKeep: mean and deviation are of the samples that are kept, the others have no advantage.
func TestKeep(t *testing.T) {
	b := Batch{Groups: []int{0, 0, 0, 0}, Rewards: [][]float64{{1, 0, 1, math.NaN()}}, Lengths: []float64{10, 2, 4, 1}}
	e := Estimator{Options: Options{Baseline: "mean", Scale: "none"}}
	for _, c := range []struct {
		keep Keep
		want []float64
	}{
		{Keep{9, "length"}, []float64{1. / 3, -2. / 3, 1. / 3, math.NaN()}},
		{Keep{2, "length"}, []float64{math.NaN(), -0.5, 0.5, math.NaN()}},
		{Keep{2, "efficiency"}, []float64{0, math.NaN(), 0, math.NaN()}},
	} {
		e.Keep = &c.keep
		got, _, err := e.Advantages(b)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range c.want {
			if math.IsNaN(w) != math.IsNaN(got[i]) || math.Abs(got[i]-w) > 1e-15 {
				t.Errorf("%+v: sample %d has %g, want %g", c.keep, i, got[i], w)
			}
		}
	}
	if b.Rewards[0][0] != 1 {
		t.Error("the batch was changed")
	}
	b.Lengths = nil
	if _, _, err := e.Advantages(b); err == nil {
		t.Error("answers without lengths are taken")
	}
}
