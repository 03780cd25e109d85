package advantage

import (
	"math"
	"math/bits"
	"testing"
)

// TestMaxAtK compares it with the sum over all choices of k samples.
func TestMaxAtK(t *testing.T) {
	rewards := []float64{0.3, 1.5, 0.3, math.NaN(), -2, 0.9, 0.8, 1.5}
	ids := make([]int, len(rewards))
	for k := 2; k <= 7; k++ {
		got, err := MaxAtK(Options{Scale: "none"}, k, ids, rewards)
		if err != nil {
			t.Fatal(err)
		}
		want := allChoices(rewards, k)
		for i := range rewards {
			if math.IsNaN(rewards[i]) {
				if !math.IsNaN(got[i]) {
					t.Errorf("k = %d: a missing reward has the advantage %g", k, got[i])
				}
				continue
			}
			if math.Abs(got[i]-want[i]) > 1e-14 || got[i] < 0 {
				t.Errorf("k = %d: sample %d has %g, want %g", k, i, got[i], want[i])
			}
		}
	}
	if a, _ := MaxAtK(Options{Scale: "none"}, 3, []int{0, 0}, []float64{0, 1}); a[0] != 0 || a[1] != 0 {
		t.Errorf("a group of two has %v for k = 3, want zeros", a)
	}
	if _, err := MaxAtK(Options{}, 1, []int{0}, []float64{1}); err == nil {
		t.Error("k = 1 is taken")
	}
}

// allChoices is the definition.
func allChoices(r []float64, k int) []float64 {
	out, n := make([]float64, len(r)), 0.0
	for set := range 1 << len(r) {
		if bits.OnesCount(uint(set)) != k {
			continue
		}
		members, ok := []int{}, true
		for i := range r {
			if set>>i&1 == 1 {
				members, ok = append(members, i), ok && !math.IsNaN(r[i])
			}
		}
		if !ok {
			continue
		}
		n++
		for _, i := range members {
			with, without := math.Inf(-1), math.Inf(-1)
			for _, j := range members {
				with = math.Max(with, r[j])
				if j != i {
					without = math.Max(without, r[j])
				}
			}
			out[i] += with - without
		}
	}
	for i := range out {
		out[i] /= n
	}
	return out
}

// TestMaxAtAll says that with k = n the best gets its lead over the second, as PassAtK gives it.
func TestMaxAtAll(t *testing.T) {
	ids, r := []int{0, 0, 0, 0}, []float64{0.1, 0.9, 0.4, 0.7}
	got, err := MaxAtK(Options{Scale: "none"}, 4, ids, r)
	want := PassAtK(Options{Scale: "none"}, ids, r)
	for i := range r {
		if err != nil || math.Abs(got[i]-want[i]) > 1e-15 {
			t.Errorf("sample %d has %g, want %g (%v)", i, got[i], want[i], err)
		}
	}
}
