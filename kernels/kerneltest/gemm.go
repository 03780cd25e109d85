package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// products are matrix products: every layout in both kinds of arithmetic, over sizes at
// which blocks end, with and without each part of the epilogue.
func products() []Case {
	var all []Case
	types := [...]kernels.DType{kernels.F32, kernels.BF16}
	shapes := [][3]int{{1, 1, 1}, {0, 3, 2}, {2, 7, 0}, {3, 31, 33}, {7, 33, 64}, {8, 96, 31}, {13, 65, 130}, {33, 32, 2}, {65, 34, 63}, {31, 130, 257}}
	for i, s := range shapes {
		for _, layout := range []kernels.Layout{kernels.NT, kernels.NN, kernels.TN} {
			for _, math := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
				p := gemmCase{layout: layout, math: math, m: s[0], n: s[1], k: s[2], a: types[i%2], b: types[i/2%2], c: types[(i+1)%2], wild: i%5 == 3}
				all = append(all, p.as("product"))
				p.epilogue = true
				if layout == kernels.TN {
					p.c = kernels.F32
					all = append(all, p.as("segments"))
					continue
				}
				all = append(all, p.as("epilogue"))
				p.packed, p.epilogue, p.b = true, i%2 == 1, types[math]
				all = append(all, p.as("packed"))
			}
		}
	}
	return all
}

type gemmCase struct {
	layout           kernels.Layout
	math             kernels.Math
	m, n, k          int
	a, b, c          kernels.DType
	wild             bool
	epilogue, packed bool
}

func (p gemmCase) as(what string) Case {
	return Case{Op: "Gemm", Name: fmt.Sprintf("%s/%s/%s/%dx%dx%d", what, p.layout, p.math, p.m, p.n, p.k), Run: p.run}
}

func (p gemmCase) run(e *Env) {
	mat := func(d kernels.DType, rows, cols, pad int) kernels.Mat {
		if p.wild {
			return e.WildMat(d, rows, cols, pad)
		}
		return e.Mat(d, rows, cols, pad, 1)
	}
	ar, ac, br, bc := p.m, p.k, p.n, p.k
	if p.layout != kernels.NT {
		br, bc = p.k, p.n
	}
	if p.layout == kernels.TN {
		ar, ac = p.k, p.m
	}
	g := &kernels.Gemm{Layout: p.layout, Math: p.math, A: mat(p.a, ar, ac, 1), B: mat(p.b, br, bc, 2), C: e.JunkMat(p.c, p.m, p.n, 3)}
	b := g.B
	if p.packed {
		g.W, g.B = e.B.Pack(g.B, p.math), kernels.Mat{}
	}
	switch {
	case p.epilogue && p.layout == kernels.TN:
		g.C = mat(kernels.F32, p.m, p.n, 3)
		g.Accumulate, g.Alpha = true, 0.5
		for left := p.k; left > 0; left -= g.Segments[len(g.Segments)-1] {
			g.Segments = append(g.Segments, min(left, 1+p.k/3))
		}
	case p.epilogue:
		g.Alpha = -1.25
		g.Bias = e.Floats(p.a, p.n, 1)
		g.Pre = e.JunkMat(p.b, p.m, p.n, 1)
		g.GateRows = 1 + p.m/2
		g.Gate = mat(p.a, 2, p.n, 5)
		g.Residual = mat(p.b, p.m, p.n, 2)
		e.Out("Pre", g.Pre.Span)
	}
	e.B.Gemm(g)
	e.Out("C", g.C.Span)
	if g.W == nil && !p.epilogue && !p.wild && p.c == kernels.F32 {
		e.Near("C", g.C.Span, p.naive(e, g.A, b, g.C), 1e-5*float64(p.k), 1e-5)
	}
}

// naive is the product in float64 of the operands as they were rounded, between the
// rows' padding as it was.
func (p gemmCase) naive(e *Env, a, b, c kernels.Mat) []float64 {
	x, y, want := e.Numbers(a.Span), e.Numbers(b.Span), e.Numbers(c.Span)
	round := func(v float64) float64 {
		if p.math == kernels.MathBF16 {
			return float64(ref.RoundBF16(float32(v)))
		}
		return v
	}
	for i := range p.m {
		for j := range p.n {
			sum := 0.0
			for k := range p.k {
				ia, ib := i*a.Stride+k, j*b.Stride+k
				if p.layout == kernels.TN {
					ia = k*a.Stride + i
				}
				if p.layout != kernels.NT {
					ib = k*b.Stride + j
				}
				sum += round(x[ia]) * round(y[ib])
			}
			want[i*c.Stride+j] = sum
		}
	}
	return want
}

// pairs are products with a pair, the low-rank product of an adapter: ranks below, at and above the slices of
// kernels, with and without other operands. Some have factors of fp32, as small trained weights are read.
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
	// The backend decides the content of either; the gate multiplies their sum.
	e.B.Binary(&kernels.Binary{Op: kernels.Add, X: before, Y: low.Pre.Span, Z: before})
	e.Out("before the gate", before)
}
