package advantage

import (
	"math"
	"testing"
)

// TestInTrees: both terms by hand, a tree of equal samples, one that is missing,
// one tree a prompt, and a bound of the sum.
func TestInTrees(t *testing.T) {
	e := Estimator{Options: Options{Over: "group", Baseline: "mean", Scale: "none"}}
	nan := math.NaN()
	b := Batch{Groups: []int{0, 0, 0, 0, 1, 1}, Rewards: [][]float64{{1, 0, 1, 1, 3, nan}}}
	a, _, err := e.InTrees(b, []int{0, 0, 1, 1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.25 + 0.5, -0.75 - 0.5, 0.25, 0.25, 0, nan} {
		if a[i] != want && (a[i] == a[i] || want == want) {
			t.Errorf("sample %d: %v, want %v", i, a[i], want)
		}
	}
	plain, _, err := e.Advantages(b)
	if err != nil {
		t.Fatal(err)
	}
	if a, _, err = e.InTrees(b, b.Groups); err != nil || a[1] != 2*plain[1] {
		t.Errorf("one tree: %v, want twice %v (%v)", a, plain, err)
	}
	e.Clip = 1
	if a, _, err = e.InTrees(b, []int{0, 0, 1, 1, 2, 2}); err != nil || a[0] != 0.75 || a[1] != -1 {
		t.Errorf("cut to 1: %v (%v)", a, err)
	}
	if _, _, err := e.InTrees(b, []int{0}); err == nil {
		t.Error("one number for six samples")
	}
}
