package kerneltest

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// attentions are forward and backward over sizes at which blocks of queries and keys
// end, in both kinds of arithmetic.
func attentions() []Case {
	shapes := []attentionCase{
		{b: 1, h: 1, sq: 1, sk: 1, d: 8},
		{b: 2, h: 2, sq: 2, sk: 3, d: 40, lens: []int32{0, 2}},
		{b: 1, h: 1, sq: 3, sk: 0, d: 8},
		{b: 1, h: 1, sq: 0, sk: 3, d: 8},
		{b: 1, h: 4, kh: 2, sq: 31, sk: 31, d: 64, causal: true},
		{b: 2, h: 2, sq: 32, sk: 33, d: 80, bias: true, pad: 8},
		{b: 1, h: 2, kh: 1, sq: 33, sk: 80, d: 64, dv: 40, pad: 3},
		{b: 3, h: 2, kh: 1, sq: 80, sk: 80, d: 64, causal: true, lens: []int32{80, 33, 0}},
		{b: 1, h: 1, sq: 40, sk: 257, d: 128, dv: 160, causal: true},
		{b: 2, h: 1, sq: 35, sk: 513, d: 32, lens: []int32{300, 256}},
		{b: 1, h: 1, sq: 70, sk: 40, d: 33, dv: 17, causal: true, bias: true},
		{b: 1, h: 1, sq: 65, sk: 255, d: 160, dv: 8, loud: true},
		{b: 1, h: 2, sq: 64, sk: 256, d: 16, loud: true, bias: true, pad: 16},
		{b: 1, h: 1, sq: 300, sk: 300, d: 8, causal: true, loud: true},
		{b: 1, h: 1, sq: 33, sk: 70, d: 40, wild: true, lens: []int32{65}},
		{b: 1, h: 1, sq: 290, sk: 290, d: 8, causal: true, ends: true},
		{b: 3, h: 6, kh: 2, sq: 1, sk: 300, d: 40, dv: 48, pad: 8, lens: []int32{300, 0, 257}},
		{b: 2, h: 4, kh: 1, sq: 1, sk: 33, d: 128, causal: true},
		{b: 1, h: 40, kh: 1, sq: 1, sk: 70, d: 16},
	}
	var all []Case
	for i, s := range shapes {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
				if i > 7 && (m == kernels.MathBF16) != (d == kernels.BF16) {
					continue
				}
				s.math, s.dtype = m, d
				name := fmt.Sprintf("%s/%s/%dx%dx%dx%dx%d", m, d, s.b, s.h, s.sq, s.sk, s.d)
				all = append(all, Case{"Attention", name, s.forward}, Case{"AttentionBackward", name, s.backward})
			}
		}
	}
	return all
}

type attentionCase struct {
	b, h, kh, sq, sk, d, dv, pad int
	causal, bias, loud, wild     bool
	ends                         bool // the last values are infinite, and most queries do not see them
	lens                         []int32
	math                         kernels.Math
	dtype                        kernels.DType
}

// heads is an operand whose rows lie pad elements further apart than they need.
func (c attentionCase) heads(e *Env, fill func(n int) kernels.Span, s, h, d int) kernels.Heads {
	x := kernels.Heads{B: c.b, S: s, H: h, D: d, SH: d + c.pad, SS: h * (d + c.pad)}
	x.SB = s*x.SS + c.pad
	x.Span = fill(c.b * x.SB)
	return x
}

func (c attentionCase) make(e *Env) *kernels.Attention {
	if c.kh == 0 {
		c.kh = c.h
	}
	if c.dv == 0 {
		c.dv = c.d
	}
	scale := float32(1)
	if c.loud { // one key takes nearly all: maxima move, exponents vanish
		scale = 8
	}
	random := func(n int) kernels.Span { return e.Floats(c.dtype, n, scale) }
	if c.wild {
		random = func(n int) kernels.Span { return e.Wild(c.dtype, n) }
	}
	values := random
	if c.ends {
		values = func(n int) kernels.Span { return e.Ending(c.dtype, n, float32(math.Inf(1))) }
	}
	junk := func(n int) kernels.Span { return e.Junk(c.dtype, n) }
	a := &kernels.Attention{Math: c.math, Scale: ref.Div(1, ref.Sqrt(float32(c.d))), Causal: c.causal, KeyLens: c.lens,
		Q: c.heads(e, random, c.sq, c.h, c.d), K: c.heads(e, random, c.sk, c.kh, c.d), V: c.heads(e, values, c.sk, c.kh, c.dv),
		O: c.heads(e, junk, c.sq, c.h, c.dv), LSE: e.Junk(kernels.F32, c.b*c.h*c.sq)}
	if c.bias {
		a.Bias = kernels.AttentionBias{Span: e.Floats(kernels.F32, c.h*c.sq*c.sk, 2), SH: c.sq * c.sk, SQ: c.sk}
	}
	return a
}

func (c attentionCase) forward(e *Env) {
	a := c.make(e)
	e.B.Attention(a)
	e.Out("O", a.O.Span)
	e.Out("LSE", a.LSE)
	if !c.wild && !c.ends {
		c.near(e, "O", a.O, attentionFormula(e, a))
	}
}

func (c attentionCase) backward(e *Env) {
	a := c.make(e)
	e.B.Attention(a)
	kh := a.K.H
	random := func(n int) kernels.Span { return e.Floats(c.dtype, n, 1) }
	junk := func(n int) kernels.Span { return e.Junk(c.dtype, n) }
	g := &kernels.AttentionBackward{Attention: *a, DO: c.heads(e, random, c.sq, c.h, a.V.D), DQ: c.heads(e, junk, c.sq, c.h, c.d),
		DK: c.heads(e, junk, c.sk, kh, c.d), DV: c.heads(e, junk, c.sk, kh, a.V.D), Delta: e.Junk(kernels.F32, c.b*c.h*c.sq)}
	if c.bias {
		g.DBias = e.Zeros(kernels.F32, a.Bias.Len)
	}
	e.B.AttentionBackward(g)
	if c.bias {
		e.Out("DBias", g.DBias)
	}
	e.Out("Delta", g.Delta)
	e.Out("DQ", g.DQ.Span)
	e.Out("DK", g.DK.Span)
	e.Out("DV", g.DV.Span)
	if c.wild || c.ends || c.loud {
		return
	}
	dq, dk, dv, dbias := attentionBackwardFormula(e, g)
	if c.bias {
		tol := 1e-4
		if c.math == kernels.MathBF16 || c.dtype == kernels.BF16 {
			tol = 0.1
		}
		e.Near("DBias", g.DBias, dbias, tol, tol)
	}
	c.near(e, "DQ", g.DQ, dq)
	c.near(e, "DK", g.DK, dk)
	c.near(e, "DV", g.DV, dv)
}

// near compares the elements of heads, leaving the memory between them.
func (c attentionCase) near(e *Env, name string, x kernels.Heads, want []float64) {
	all := e.Numbers(x.Span)
	i := 0
	for b := range x.B {
		for s := range x.S {
			for h := range x.H {
				at := x.At(b, s, h)
				i += copy(all[at:at+x.D], want[i:i+x.D])
			}
		}
	}
	tol := 1e-4
	if c.math == kernels.MathBF16 || c.dtype == kernels.BF16 {
		tol = 0.03
	}
	if c.loud {
		tol *= 20
	}
	e.Near(name, x.Span, all, tol, tol)
}

// plain is heads as float64 [b, s, h, d].
func plain(e *Env, x kernels.Heads) (v []float64) {
	all := e.Numbers(x.Span)
	for b := range x.B {
		for s := range x.S {
			for h := range x.H {
				at := x.At(b, s, h)
				v = append(v, all[at:at+x.D]...)
			}
		}
	}
	return v
}

// probabilities calls f for every query with its weights, in float64.
func probabilities(e *Env, a *kernels.Attention, f func(b, h, i int, p []float64)) {
	q, k, bias := plain(e, a.Q), plain(e, a.K), e.Numbers(a.Bias.Span)
	for b := range a.Q.B {
		for h := range a.Q.H {
			kh := h / (a.Q.H / a.K.H)
			for i := range a.Q.S {
				n := ref.Seen(a, b, i)
				p := make([]float64, n)
				most, total := math.Inf(-1), 0.0
				for j := range p {
					for d := range a.Q.D {
						p[j] += q[((b*a.Q.S+i)*a.Q.H+h)*a.Q.D+d] * k[((b*a.K.S+j)*a.K.H+kh)*a.K.D+d]
					}
					p[j] *= float64(a.Scale)
					if len(bias) > 0 {
						p[j] += bias[b*a.Bias.SB+h*a.Bias.SH+i*a.Bias.SQ+j]
					}
					most = max(most, p[j])
				}
				for j := range p {
					p[j] = math.Exp(p[j] - most)
					total += p[j]
				}
				for j := range p {
					p[j] /= total
				}
				f(b, h, i, p)
			}
		}
	}
}

func attentionFormula(e *Env, a *kernels.Attention) []float64 {
	v, o := plain(e, a.V), make([]float64, a.O.B*a.O.S*a.O.H*a.O.D)
	probabilities(e, a, func(b, h, i int, p []float64) {
		for j, w := range p {
			for d := range a.V.D {
				o[((b*a.O.S+i)*a.O.H+h)*a.O.D+d] += w * v[((b*a.V.S+j)*a.V.H+h/(a.Q.H/a.K.H))*a.V.D+d]
			}
		}
	})
	return o
}

func attentionBackwardFormula(e *Env, a *kernels.AttentionBackward) (dq, dk, dv, dbias []float64) {
	q, k, v, do := plain(e, a.Q), plain(e, a.K), plain(e, a.V), plain(e, a.DO)
	dq, dk, dv = make([]float64, len(q)), make([]float64, len(k)), make([]float64, len(v))
	dbias = make([]float64, a.Bias.Len)
	probabilities(e, &a.Attention, func(b, h, i int, p []float64) {
		kh := h / (a.Q.H / a.K.H)
		at := ((b*a.Q.S+i)*a.Q.H + h)
		dp, mean := make([]float64, len(p)), 0.0
		for j := range p {
			to := (b*a.K.S+j)*a.K.H + kh
			for d := range a.V.D {
				g := do[at*a.V.D+d]
				dp[j] += g * v[to*a.V.D+d]
				dv[to*a.V.D+d] += p[j] * g
			}
			mean += p[j] * dp[j]
		}
		for j := range p {
			ds := p[j] * (dp[j] - mean)
			if len(dbias) > 0 {
				dbias[b*a.Bias.SB+h*a.Bias.SH+i*a.Bias.SQ+j] += ds
			}
			ds *= float64(a.Scale)
			to := (b*a.K.S+j)*a.K.H + kh
			for d := range a.Q.D {
				dq[at*a.Q.D+d] += ds * k[to*a.K.D+d]
				dk[to*a.K.D+d] += ds * q[at*a.Q.D+d]
			}
		}
	})
	return dq, dk, dv, dbias
}

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
