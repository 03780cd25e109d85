package rows

import (
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// nearLeast are numbers whose products and sums lie about 2^-126, where processors flush differently: 2^-126·(1 -
// 2^-46) is below it before rounding, and 2^-126 after it.
func nearLeast(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(6) {
		case 0, 1:
			x[i] = (1 + 0x1p-23) * 0x1p-60
		case 2, 3:
			x[i] = (1 - 0x1p-23) * 0x1p-66
		case 4:
			x[i] = 0x1p-126
		default:
			x[i] = -0x1p-76
		}
	}
	return x
}

// TestAtTheSmallestNormal compares kernels that multiply with ref: element by element, down columns, in sums over a
// row, in place, and in every variant of types.
func TestAtTheSmallestNormal(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{1, 7, 64, 150} {
		const rows = 5
		x, y, z := nearLeast(r, rows*n), nearLeast(r, rows*n), nearLeast(r, rows*n)
		mat := func(x []float32) kernels.Mat { return kernels.NewMat(f32Span(x), rows, n) }
		few := func(x []float32) kernels.Mat { return kernels.NewMat(f32Span(x[:n]), 1, n) }
		product := make([]float32, len(x))
		ref.Binary(&kernels.Binary{Op: kernels.Mul, X: f32Span(x), Y: f32Span(y), Z: f32Span(product)}, 0, len(x))
		eachPath(t, func(t *testing.T, e *Engine) {
			for name, run := range map[string]func(o ops) kernels.Span{
				"product": func(o ops) kernels.Span {
					a := &kernels.Binary{Op: kernels.Mul, X: f32Span(x), Y: f32Span(y), Z: f32Span(x)}
					o.binary(a, 0, len(x))
					return a.Z
				},
				"product in place": func(o ops) kernels.Span {
					a := &kernels.Binary{Op: kernels.Mul, X: f32Span(x), Y: f32Span(y)}
					a.Z = a.X
					o.binary(a, 0, len(x))
					return a.Z
				},
				"gated": func(o ops) kernels.Span {
					a := &kernels.Gated{X: mat(x), Gate: mat(y), Residual: mat(z), Y: mat(x), RowsPerSample: 1}
					o.gated(a, 0, rows)
					return a.Y.Span
				},
				"down columns": func(o ops) kernels.Span {
					g := kernels.Gated{X: mat(y), Gate: few(z), RowsPerSample: rows}
					a := &kernels.GatedBackward{Gated: g, DY: mat(x), DGate: few(z)}
					o.gatedBackward(a, 0, 1)
					return a.DGate.Span
				},
				"sums": func(o ops) kernels.Span {
					a := &kernels.SoftmaxBackward{Y: mat(x), DY: mat(y), DX: mat(z)}
					o.softmaxBackward(a, 0, rows)
					return a.DX.Span
				},
				"optimiser": func(o ops) kernels.Span {
					a := &kernels.AdamW{P: f32Span(x), Grad: f32Span(y), M: f32Span(z), V: f32Span(x), Rate: 1e-3, Decay: 0.01,
						GradScale: 1 - 0x1p-24, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Step: 1e-3, RootScale: 1}
					o.adamw(a, 0, len(x))
					return a.V
				},
			} {
				want, got := run(refOps), run(opsOf(e))
				same(t, name, got, want, product)
			}
		})
	}
}

// ops are the operations of ref, or of an engine.
type ops struct {
	binary          func(*kernels.Binary, int, int)
	gated           func(*kernels.Gated, int, int)
	gatedBackward   func(*kernels.GatedBackward, int, int)
	softmaxBackward func(*kernels.SoftmaxBackward, int, int)
	adamw           func(*kernels.AdamW, int, int)
}

var refOps = ops{ref.Binary, ref.Gated, ref.GatedBackward, ref.SoftmaxBackward, ref.AdamW}

func opsOf(e *Engine) ops {
	return ops{e.Binary, e.Gated, e.GatedBackward, e.SoftmaxBackward, e.AdamW}
}
