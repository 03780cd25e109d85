package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

func training() []Case {
	var all []Case
	for _, d := range floats {
		for _, n := range Sizes {
			all = append(all, Case{"Row", fmt.Sprintf("%s 3x%d", d, n), func(e *Env) {
				a := kernels.Row{X: e.Mat(d, 3, n, 0, 1), Noise: e.Mat(kernels.F32, 3, n, 0, 1), Next: e.JunkMat(d, 3, n, 1), Mean: e.JunkMat(kernels.F32, 3, n, 0),
					Out: []kernels.Mat{e.Mat(d, 3, n, 0, 1), e.Mat(d, 3, n, 2, 1)}, A: []float32{1, 0.9, 0.1}, C: []float32{0.3, 0, 1.1},
					B: [][]float32{{0.1, -0.2, 3}, {1e-3, 0.5, -1}}, Square: e.Junk(kernels.F64, 3)}
				e.B.Row(&a)
				e.Out("next", a.Next.Span)
				e.Out("mean", a.Mean.Span)
				e.Out("square", a.Square)
				g := a
				g.Given, g.Square, g.Noise = true, e.Junk(kernels.F64, 3), kernels.Mat{}
				e.B.Row(&g)
				e.Out("square of a given next", g.Square)
				o := a
				o.Noise, o.Next, o.Out = kernels.Mat{}, e.JunkMat(kernels.F32, 3, n, 0), nil
				e.B.Row(&o)
				e.Out("deterministic", o.Next.Span)
			}})
		}
	}
	for _, n := range Sizes {
		all = append(all, Case{"AdamW", fmt.Sprint(n), func(e *Env) {
			v := e.Floats(kernels.F32, n, 0.1)
			e.B.Binary(&kernels.Binary{Op: kernels.Mul, X: v, Y: v, Z: v})
			a := kernels.AdamW{P: e.Floats(kernels.F32, n, 1), Grad: e.Floats(kernels.F32, n, 0.1), M: e.Floats(kernels.F32, n, 0.1), V: v,
				GradScale: 0.5, Beta1: 0.9, Beta2: 0.999, Rate: 1e-3, Decay: 0.01, Eps: 1e-8, Step: 1e-2, RootScale: 3}
			if n == 0 {
				return
			}
			e.B.AdamW(&a)
			e.Out("p", a.P)
			e.Out("m", a.M)
			e.Out("v", a.V)
		}})
	}
	return all
}

// normals are cases of Normal: every length, starts within and across blocks, and
// more than one task's worth.
func normals() []Case {
	var all []Case
	add := func(d kernels.DType, n int, start uint64) {
		all = append(all, Case{"Normal", fmt.Sprintf("%s/%d from %d", d, n, start), func(e *Env) {
			y := e.Junk(d, n)
			e.B.Normal(&kernels.Normal{Key: 7, Stream: 1<<40 + 3, Start: start, Y: y})
			e.Out("y", y)
		}})
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for i, n := range Sizes {
			add(d, n, uint64(i))
		}
		add(d, 1024, 4<<32-500)
		add(d, 1<<16+129, 6)
	}
	return all
}
