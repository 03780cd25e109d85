package ref

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
)

// TestMomentsFarFromZero: a mean of 10,000 deviations leaves the variance accurate, and
// the worst case, every middle pixel 1,000 deviations from all others, loses no more than
// the file's head says.
func TestMomentsFarFromZero(t *testing.T) {
	const hw, c, groups = 700, 6, 2
	r := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name   string
		bound  float64 // of the variance's relative error
		number func(pixel, c int) float64
	}{
		{"about zero", 1e-5, func(int, int) float64 { return r.NormFloat64() }},
		{"mean of 10,000", 1e-5, func(int, int) float64 { return 1e4 + r.NormFloat64() }},
		{"channels far apart", 1e-5, func(_, c int) float64 { return 100*float64(c) + r.NormFloat64() }},
		{"middles far off", 1e-4, func(p, _ int) float64 { return when(p%MomentBlock == MomentBlock/2, 1e3) + r.NormFloat64() }},
		{"first pixel far off", 1e-5, func(p, _ int) float64 { return when(p == 0, 1e3) + r.NormFloat64() }},
		{"one number everywhere", 1e-5, func(int, int) float64 { return 0.1 }},
		{"blocks of other levels", 1e-5, func(p, _ int) float64 { return float64(p/MomentBlock) + 1e-3*r.NormFloat64() }},
	} {
		x := make([]float32, hw*c)
		for i := range x {
			x[i] = float32(test.number(i/c, i%c))
		}
		b := Backend{}
		s := kernels.Span{Buf: b.Alloc(4 * len(x)), Len: len(x), DType: kernels.F32}
		copy(s.F32(), x)
		g := newGroups(&kernels.GroupNorm{X: s, N: 1, HW: hw, C: c, Groups: groups})
		for group := range groups {
			first, blocks := g.moments(0, group)
			mean, variance := Statistics(first, blocks, hw*g.per)
			var in []float64
			for i, v := range x {
				if i%c/g.per == group {
					in = append(in, float64(v))
				}
			}
			wantMean, wantVariance := 0.0, 0.0
			for _, v := range in {
				wantMean += v / float64(len(in))
			}
			for _, v := range in {
				wantVariance += (v - wantMean) * (v - wantMean) / float64(len(in))
			}
			if math.Abs(float64(mean)-wantMean) > 1e-7*math.Abs(wantMean)+test.bound/10*math.Sqrt(wantVariance) {
				t.Errorf("%s, group %d: mean %v, want %v", test.name, group, mean, wantMean)
			}
			if math.Abs(float64(variance)-wantVariance) > test.bound*wantVariance+1e-20 {
				t.Errorf("%s, group %d: variance %v, want %v", test.name, group, variance, wantVariance)
			}
		}
	}
}

func when(yes bool, x float64) float64 {
	if yes {
		return x
	}
	return 0
}
