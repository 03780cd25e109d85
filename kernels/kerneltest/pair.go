package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// pairs are products with a pair, the low-rank product of an adapter: ranks below, at and above the slices of kernels,
// with and without what goes beside them. Some have factors of fp32, as small trained weights are read.
func pairs() []Case {
	var all []Case
	types := [...]kernels.DType{kernels.F32, kernels.BF16}
	for i, s := range [][4]int{{1, 1, 1, 1}, {7, 33, 40, 1}, {13, 66, 72, 4}, {0, 3, 2, 2}, {33, 72, 66, 16}, {65, 40, 33, 32}, {35, 136, 70, 64}, {9, 70, 130, 128}, {31, 67, 65, 72}} {
		for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
			for _, math := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
				p := pairCase{layout: layout, math: math, m: s[0], n: s[1], k: s[2], r: s[3], a: types[math], b: types[i/2%2], c: types[(i+1)%2], packed: i%3 > 0}
				// C of bf16 is rounded before NN adds to it, and is not where all is one sum: more than the order of sums.
				one := layout == kernels.NN && math == kernels.MathBF16
				if one {
					p.c = kernels.F32
				}
				all = append(all, p.as("pair"))
				if p.epilogue = true; !one {
					p.c = types[i%2]
				}
				all = append(all, p.as("pair with epilogue"))
			}
		}
	}
	return all
}

type pairCase struct {
	layout           kernels.Layout
	math             kernels.Math
	m, n, k, r       int
	a, b, c          kernels.DType
	epilogue, packed bool
}

func (p pairCase) as(what string) Case {
	return Case{Op: "Gemm", Name: fmt.Sprintf("%s/%s/%s/%dx%dx%d+%d", what, p.layout, p.math, p.m, p.n, p.k, p.r), Run: p.run}
}

func (p pairCase) run(e *Env) {
	right := func(k int) (kernels.Mat, *kernels.Packed) {
		rows, cols := p.n, k
		if p.layout == kernels.NN {
			rows, cols = k, p.n
		}
		b := e.Mat(p.b, rows, cols, 2, 1)
		if !p.packed {
			return b, nil
		}
		return kernels.Mat{}, e.B.Pack(b, p.math)
	}
	g := &kernels.Gemm{Layout: p.layout, Math: p.math, A: e.Mat(p.a, p.m, p.k, 1, 1), C: e.JunkMat(p.c, p.m, p.n, 3)}
	low := &kernels.Pair{A: e.Mat(p.a, p.m, p.r, 3, 1), Alpha: 0.6875}
	g.B, g.W = right(p.k)
	low.B, low.W = right(p.r)
	g.Pair = low
	if p.epilogue {
		g.Alpha = -1.25
		g.Residual = e.Mat(p.a, p.m, p.n, 2, 1)
	}
	if !p.epilogue || p.layout == kernels.NN {
		e.B.Gemm(g)
		e.Out("C", g.C.Span)
		return
	}
	g.Bias = e.Floats(p.b, p.n, 1)
	g.GateRows = 1 + p.m/2
	g.Gate = e.Mat(p.a, 2, p.n, 5, 1)
	before := e.Floats(kernels.F32, p.m*p.n, 1)
	g.Pre, low.Pre = kernels.NewMat(before, p.m, p.n), e.JunkMat(kernels.F32, p.m, p.n, 0)
	e.B.Gemm(g)
	e.Out("C", g.C.Span)
	// What either holds is the backend's; what the gate multiplies is their sum.
	e.B.Binary(&kernels.Binary{Op: kernels.Add, X: before, Y: low.Pre.Span, Z: before})
	e.Out("before the gate", before)
}
