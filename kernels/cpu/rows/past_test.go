package rows

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// TestPastTheCaches compares group norms that write past the caches, whatever the size,
// with ref.
func TestPastTheCaches(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	drawn := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64()) + 0.25
		}
		return x
	}
	serial := func(n int, task func(int)) {
		for i := range n {
			task(i)
		}
	}
	for _, s := range [][4]int{{1, 600, 64, 8}, {2, 70, 24, 3}, {1, 300, 40, 4}, {2, 130, 7, 1}, {1, 9, 576, 32}, {3, 64, 32, 32}} {
		n, hw, c, groups := s[0], s[1], s[2], s[3]
		x, dy, w, b := drawn(n*hw*c), drawn(n*hw*c), drawn(c), drawn(c)
		for _, span := range []func([]float32) kernels.Span{f32Span, bf16Span} {
			for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
				fresh := func() *kernels.GroupNormBackward {
					zeros := func(n int) kernels.Span { return f32Span(make([]float32, n)) }
					return &kernels.GroupNormBackward{GroupNorm: kernels.GroupNorm{X: span(x), Y: span(x), N: n, HW: hw, C: c, Groups: groups, Eps: 1e-5, Act: act,
						Weight: f32Span(w), Bias: f32Span(b), Mean: zeros(n * groups), Rstd: zeros(n * groups)},
						DY: span(dy), DX: span(x), DWeight: zeros(c), DBias: zeros(c)}
				}
				want := fresh()
				ref.GroupNorm(&want.GroupNorm, 0, n)
				ref.GroupNormBackward(want, 0, n)
				eachPath(t, func(t *testing.T, e *Engine) {
					e.past = 0
					got := fresh()
					e.GroupNorm(&got.GroupNorm, serial)
					e.GroupNormBackward(got, serial)
					what := fmt.Sprintf("%v %s %s: ", s, want.X.DType, act)
					same(t, what+"y", got.Y, want.Y, x)
					same(t, what+"dx", got.DX, want.DX, x)
					same(t, what+"dweight", got.DWeight, want.DWeight, w)
					same(t, what+"dbias", got.DBias, want.DBias, b)
				})
			}
		}
	}
}
