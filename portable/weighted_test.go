package portable

import (
	"math"
	"slices"
	"testing"
)

// TestWeighted: places come as often as their weights say, once each, and never without weight.
func TestWeighted(t *testing.T) {
	weights := []float64{1, 0, 3, 4}
	n := make([]float64, 4)
	const grid = 4000
	for i := range grid {
		for _, k := range Weighted([]float64{(float64(i) + 0.5) / grid}, weights, 1) {
			n[k]++
		}
	}
	if want := []float64{grid / 8, 0, grid * 3 / 8, grid / 2}; !slices.Equal(n, want) {
		t.Errorf("drawn %v times, not %v", n, want)
	}
	if got := Weighted([]float64{0.999999, 0, 0.999999, 0.5}, weights, 4); !slices.Equal(got, []int{3, 0, 2}) {
		t.Errorf("all of them are %v", got)
	}
	if got := Weighted([]float64{0.5}, []float64{0, 0}, 1); len(got) != 0 {
		t.Errorf("nothing to draw gives %v", got)
	}
}

// TestSoftmax: shares add up to 1, keep their ratios where e^x itself is beyond float64, and are those of float32.
func TestSoftmax(t *testing.T) {
	p := Softmax([]float64{1000, 1001, math.Inf(-1)})
	if math.Abs(p[1]/p[0]-math.E) > 1e-12 || math.Abs(p[0]+p[1]-1) > 1e-15 || p[2] != 0 {
		t.Errorf("%v", p)
	}
	if q := Softmax([]float32{0.5, -2}); !slices.Equal(q, Softmax([]float64{0.5, -2})) {
		t.Errorf("of float32 %v", q)
	}
	if len(Softmax[float64](nil)) != 0 {
		t.Error("shares of nothing")
	}
}
