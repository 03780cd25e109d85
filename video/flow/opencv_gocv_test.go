//go:build gocv

package flow

import (
	"math"
	"testing"
)

// OpenCV's flow is ours: the same settings, still frames apart, whose sums OpenCV leaves noise in.
func TestOpenCVsFlowIsOurs(t *testing.T) {
	mean, most, n := 0.0, 0.0, 0
	for _, size := range [][2]int{{160, 120}, {97, 61}, {24, 20}} {
		for _, d := range [][2]float64{{3, -2}, {0.4, 0.7}, {-5.5, 4.25}} {
			for _, f := range []Farneback{{}, {PyramidScale: 0.6, Levels: 2, Window: 13, Iterations: 2, PolyN: 7, PolySigma: 1.5, Gaussian: true}, {Levels: -1, Window: 9}} {
				a, b := waves(size[0], size[1], 0, 0), waves(size[0], size[1], d[0], d[1])
				ours, err := f.Flow(a, b)
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := OpenCV{f}.Flow(a, b)
				if err != nil {
					t.Fatal(err)
				}
				for i := range ours.X {
					e := math.Hypot(float64(ours.X[i]-theirs.X[i]), float64(ours.Y[i]-theirs.Y[i]))
					mean, most, n = mean+e, max(most, e), n+1
				}
			}
		}
	}
	mean /= float64(n)
	t.Logf("%.3g pixels in the mean, %.3g at most, of %d", mean, most, n)
	if mean > 1e-5 || most > 5e-3 {
		t.Errorf("%.3g pixels in the mean, %.3g at most", mean, most)
	}
}
