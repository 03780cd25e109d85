package rows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// TestDepthwise compares lines of every width and number of channels around a block's with ref: strides, dilations,
// with a bias and without, and sums that are almost as small as numbers are.
func TestDepthwise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 60 {
		a := kernels.Depthwise{N: 1 + i%2, C: 1 + r.IntN(40), KH: 1 + r.IntN(5), KW: 1 + r.IntN(5), StrideY: 1 + r.IntN(2), StrideX: 1 + r.IntN(3),
			DilationY: 1 + r.IntN(2), DilationX: 1 + r.IntN(2)}
		oh, ow := 1+r.IntN(4), 1+r.IntN(20)
		a.H = (a.KH-1)*a.DilationY + 1 + (oh-1)*a.StrideY + r.IntN(a.StrideY)
		a.W = (a.KW-1)*a.DilationX + 1 + (ow-1)*a.StrideX + r.IntN(a.StrideX)
		scale := math.Ldexp(1, []int{0, -63, -62}[i%3])
		numbers := func(n int) kernels.Span {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * scale)
			}
			return f32Span(x)
		}
		a.X, a.Weight = numbers(a.N*a.H*a.W*a.C), numbers(a.KH*a.KW*a.C)
		if i%2 == 0 {
			a.Bias = numbers(a.C)
		}
		out := make([]float32, a.N*oh*ow*a.C)
		a.Y = f32Span(out)
		ref.Backend{}.Depthwise(&a)
		eachPath(t, func(t *testing.T, e *Engine) {
			got := a
			got.Y = f32Span(out)
			for line := range a.N * oh {
				e.Depthwise(&got, line, line+1)
			}
			same(t, fmt.Sprintf("%d x %d of %d channels", oh, ow, a.C), got.Y, a.Y, out)
		})
	}
}
