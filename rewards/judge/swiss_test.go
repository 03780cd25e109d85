package judge

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
)

// TestSwiss: a judge of one mind gives the order of a whole tournament in a third of its calls, and with all rounds
// everyone has met everyone.
func TestSwiss(t *testing.T) {
	var calls atomic.Int64
	brighter := says(func(shown []uint8, _ string) (string, error) {
		calls.Add(1)
		if shown[0] > shown[1] {
			return "<answer>Image 1 is better</answer>", nil
		}
		return "<answer>Image 2 is better</answer>", nil
	})
	shades := []uint8{50, 90, 10, 200, 120, 30, 70, 160, 20, 240, 100, 140}
	rates := func(rounds int) []float64 {
		var out []float64
		for i, r := range (Pairwise{Model: brighter, Form: "think", Rounds: rounds, AtOnce: 2}).Judge(t.Context(), group(shades...)) {
			if r.Missing != nil || len(r.Evidence) == 0 {
				t.Errorf("%d rounds: item %d is %+v", rounds, i, r)
			}
			out = append(out, r.Value)
		}
		return out
	}
	whole := rates(0)
	if calls.Swap(0) != 66 {
		t.Error("a whole tournament of twelve has 66 comparisons")
	}
	few := rates(4)
	if n := calls.Swap(0); n != 24 {
		t.Errorf("four rounds of twelve took %d comparisons", n)
	}
	if c := rankCorrelation(whole, few); c < 0.9 {
		t.Errorf("four rounds order items otherwise: %v and %v (%.3f)", few, whole, c)
	}
	sum := 0.0
	for _, r := range few {
		sum += r
	}
	if math.Abs(sum/12-0.5) > 1e-3 {
		t.Errorf("rates have the mean %g", sum/12)
	}
	all := rates(40)
	if n := calls.Load(); n != 66 {
		t.Errorf("forty rounds took %d comparisons", n)
	}
	if c := rankCorrelation(whole, all); c != 1 {
		t.Errorf("all rounds order items otherwise: %v and %v", all, whole)
	}
}

// rankCorrelation is Spearman's, of numbers without equals.
func rankCorrelation(x, y []float64) float64 {
	ranks := func(x []float64) []float64 {
		s := slices.Sorted(slices.Values(x))
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = float64(slices.Index(s, v))
		}
		return out
	}
	a, b, d, n := ranks(x), ranks(y), 0.0, float64(len(x))
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
	}
	return 1 - 6*d/(n*(n*n-1))
}
