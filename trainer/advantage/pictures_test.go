package advantage

import (
	"math"
	"slices"
	"testing"
)

func TestVersus(t *testing.T) {
	nan := math.NaN()
	ids := []int{1, 1, 1, 1, 2, 2, 3, 1}
	r := []float64{0.1, 5, 0.1, -3, 1, 1, 7, nan}
	got := Versus(ids, r, false)
	want := []float64{0.5, 1, 0.5, 0, 0.5, 0.5, 0.5}
	if !slices.Equal(got[:7], want) || !math.IsNaN(got[7]) {
		t.Errorf("%v, want %v", got, want)
	}
	grown := make([]float64, len(r))
	for i, v := range r {
		grown[i] = v*v*v + 7
	}
	if again := Versus(ids, grown, false); !slices.Equal(again[:7], got[:7]) {
		t.Errorf("%v of what grows with it, %v", again, got)
	}
}

// TestPicturesEstimators: estimators of tokens where all samples have the same number of decisions.
func TestPicturesEstimators(t *testing.T) {
	nan := math.NaN()
	b := Batch{Groups: []int{0, 0, 0, 1, 1, 1}, Rewards: [][]float64{{1, 2, 6, 4, nan, 8}}, Lengths: []float64{3, 3, 3, 3, 3, 3}}
	of := func(rule string) []float64 {
		a, _, err := Estimator{Rule: rule, Options: Options{Over: "group", Baseline: "mean", Scale: "none"}, Several: Several{How: "rewards"}, Whiten: DefaultWhiten()}.Advantages(b)
		if err != nil || !math.IsNaN(a[4]) {
			t.Fatalf("%s: %v, %v", rule, a, err)
		}
		return slices.Delete(a, 4, 5)
	}
	dr := of("compare")
	if opo := of("opo"); !slices.Equal(opo, dr) {
		t.Errorf("opo is %v, and dr %v", opo, dr)
	}
	// Over the 15 decisions of the batch: mean 4.2, squares 3·(3.2² + 2.2² + 1.8² + 0.2² + 3.8²) over 14.
	deviation := math.Sqrt(3*(3.2*3.2+2.2*2.2+1.8*1.8+0.2*0.2+3.8*3.8)/14 + 1e-8)
	for i, r := range []float64{1, 2, 6, 4, 8} {
		if got := of("reinforce++")[i]; math.Abs(got-(r-4.2)/deviation) > 1e-7 {
			t.Errorf("reinforce++ of %v is %v, want %v", r, got, (r-4.2)/deviation)
		}
	}
	base := of("reinforce++-baseline")
	sum, squares := 0.0, 0.0
	for i, v := range base {
		sum, squares = sum+v, squares+v*v
		if (v > 0) != (dr[i] > 0) {
			t.Errorf("reinforce++-baseline %v, dr %v", base, dr)
		}
	}
	if math.Abs(sum) > 1e-7 || math.Abs(squares*3/14-1) > 1e-6 {
		t.Errorf("%v has mean %v, squares %v", base, sum, squares)
	}
}
