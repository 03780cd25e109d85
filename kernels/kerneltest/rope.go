package kerneltest

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// ropes are rotations of both kinds, there and back.
func ropes() []Case {
	var all []Case
	for _, kind := range []kernels.RopeKind{kernels.RopeInterleaved, kernels.RopeHalves} {
		for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
			for i, dim := range []int{2, 6, 8, 16, 34, 40, 64, 80, 128, 160} {
				c := ropeCase{kind: kind, dtype: d, dim: dim, b: 1 + i%3, s: 5, h: 1 + i%2, pad: i % 4, inverse: i%2 == 1, each: i%3 == 1, wild: i%5 == 4}
				name := fmt.Sprintf("%d/%s/%d", kind, d, dim)
				all = append(all, Case{"Rope", name, c.run})
			}
		}
	}
	return all
}

type ropeCase struct {
	kind                kernels.RopeKind
	dtype               kernels.DType
	dim, b, s, h, pad   int
	inverse, each, wild bool // each: angles for every sample
}

func (c ropeCase) run(e *Env) {
	heads := func(span func(d kernels.DType, n int) kernels.Span) kernels.Heads {
		x := kernels.Heads{B: c.b, S: c.s, H: c.h, D: c.dim, SH: c.dim + c.pad, SS: c.h*(c.dim+c.pad) + c.pad}
		x.SB = c.s * x.SS
		x.Span = span(c.dtype, c.b*x.SB)
		return x
	}
	fill := func(d kernels.DType, n int) kernels.Span { return e.Floats(d, n, 1) }
	if c.wild {
		fill = e.Wild
	}
	rows := c.s
	if c.each {
		rows *= c.b
	}
	a := &kernels.Rope{Kind: c.kind, Inverse: c.inverse, X: heads(fill), Y: heads(e.Junk),
		Cos: e.Mat(kernels.F32, rows, c.dim/2, c.pad, 1), Sin: e.Mat(kernels.F32, rows, c.dim/2, 1, 1)}
	e.B.Rope(a)
	e.Out("Y", a.Y.Span)
	if !c.wild {
		e.Near("Y", a.Y.Span, c.formula(e, a), 0.02, 0.01)
	}
	in := *a
	in.Y = a.X
	e.B.Rope(&in)
	e.Out("X, in place", in.Y.Span)
}

func (c ropeCase) formula(e *Env, a *kernels.Rope) []float64 {
	x, y, cos, sin := e.Numbers(a.X.Span), e.Numbers(a.Y.Span), e.Numbers(a.Cos.Span), e.Numbers(a.Sin.Span)
	for b := range c.b {
		for s := range c.s {
			row := s
			if c.each {
				row += b * c.s
			}
			for h := range c.h {
				for i := range c.dim / 2 {
					p, q := a.X.At(b, s, h)+2*i, a.X.At(b, s, h)+2*i+1
					if c.kind == kernels.RopeHalves {
						p, q = a.X.At(b, s, h)+i, a.X.At(b, s, h)+i+c.dim/2
					}
					u, v := cos[row*a.Cos.Stride+i], math.Copysign(1, map[bool]float64{true: -1, false: 1}[c.inverse])*sin[row*a.Sin.Stride+i]
					y[p], y[q] = x[p]*u-x[q]*v, x[q]*u+x[p]*v
				}
			}
		}
	}
	return y
}
