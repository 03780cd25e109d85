package kerneltest

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

var floats = []kernels.DType{kernels.F32, kernels.BF16}

// slack is the tolerance of a naive formula: results are of order one.
func slack(d kernels.DType) float64 {
	if d == kernels.BF16 {
		return 0.02
	}
	return 2e-5
}

func norms() []Case {
	var all []Case
	for _, d := range floats {
		for _, cols := range Sizes[1:] {
			for _, kind := range []kernels.NormKind{kernels.LayerNorm, kernels.RMSNorm} {
				name := fmt.Sprintf("%s kind %d 3x%d", d, kind, cols)
				all = append(all, Case{"Norm", name, func(e *Env) { plainNorm(e, d, kind, cols) }},
					Case{"Norm", name + " modulated", func(e *Env) { fullNorm(e, d, kind, cols) }},
					Case{"NormBackward", name, func(e *Env) { normBackward(e, d, kind, cols) }})
			}
		}
		all = append(all, Case{"Norm", d.String() + " wild", func(e *Env) {
			x, y := e.WildMat(d, 40, 37, 0), e.JunkMat(d, 40, 37, 0)
			e.B.Norm(&kernels.Norm{X: x, Y: y, Eps: 1e-6})
			e.Out("y", y.Span)
		}})
	}
	return all
}

func plainNorm(e *Env, d kernels.DType, kind kernels.NormKind, cols int) {
	x, y := e.Mat(d, 3, cols, 0, 2), e.JunkMat(d, 3, cols, 0)
	e.B.Norm(&kernels.Norm{Kind: kind, X: x, Y: y, Eps: 1e-3})
	e.Out("y", y.Span)
	var want []float64
	in := e.Numbers(x.Span)
	for r := range 3 {
		row := in[r*cols : (r+1)*cols]
		mean, v := 0.0, 0.0
		if kind == kernels.LayerNorm {
			for _, a := range row {
				mean += a / float64(cols)
			}
		}
		for _, a := range row {
			v += (a - mean) * (a - mean) / float64(cols)
		}
		for _, a := range row {
			want = append(want, (a-mean)/math.Sqrt(v+1e-3))
		}
	}
	e.Near("y", y.Span, want, slack(d), slack(d))
}

// newNorm is a norm with every parameter over 5 rows, 2 a sample.
func newNorm(e *Env, d kernels.DType, kind kernels.NormKind, cols int) kernels.Norm {
	return kernels.Norm{Kind: kind, X: e.Mat(d, 5, cols, 3, 2), Y: e.JunkMat(d, 5, cols, 2), Eps: 1e-5, RowsPerSample: 2,
		Weight: e.Floats(kernels.F32, cols, 1), Bias: e.Floats(d, cols, 1), Scale: e.Mat(d, 3, cols, 1, 0.5), Shift: e.Mat(kernels.F32, 3, cols, 0, 1),
		Mean: e.Junk(kernels.F32, 5), Rstd: e.Junk(kernels.F32, 5)}
}

func fullNorm(e *Env, d kernels.DType, kind kernels.NormKind, cols int) {
	a := newNorm(e, d, kind, cols)
	e.B.Norm(&a)
	e.Out("y", a.Y.Span)
	e.Out("mean", a.Mean)
	e.Out("rstd", a.Rstd)
	for _, part := range []func(n *kernels.Norm){
		func(n *kernels.Norm) { n.Weight = kernels.Span{} },
		func(n *kernels.Norm) { n.Bias = kernels.Span{} },
		func(n *kernels.Norm) { n.Scale = kernels.Mat{} },
		func(n *kernels.Norm) { n.Scale, n.Shift = kernels.Mat{}, kernels.Mat{} },
		func(n *kernels.Norm) { n.Weight, n.Bias, n.Shift = kernels.Span{}, kernels.Span{}, kernels.Mat{} },
	} {
		b := a
		b.Y = e.JunkMat(d, 5, cols, 2)
		part(&b)
		e.B.Norm(&b)
		e.Out("y of a part", b.Y.Span)
	}
}

func normBackward(e *Env, d kernels.DType, kind kernels.NormKind, cols int) {
	a := kernels.NormBackward{Norm: newNorm(e, d, kind, cols), DY: e.Mat(d, 5, cols, 1, 1), DX: e.JunkMat(d, 5, cols, 2),
		DWeight: e.Floats(kernels.F32, cols, 1), DBias: e.Floats(kernels.F32, cols, 1), DScale: e.JunkMat(d, 3, cols, 0), DShift: e.JunkMat(d, 3, cols, 0)}
	e.B.Norm(&a.Norm)
	e.B.NormBackward(&a)
	e.Out("dx", a.DX.Span)
	e.Out("dweight", a.DWeight)
	e.Out("dbias", a.DBias)
	e.Out("dscale", a.DScale.Span)
	e.Out("dshift", a.DShift.Span)
	// Without modulation, one sample.
	b := a
	b.Scale, b.Shift, b.DScale, b.DShift, b.RowsPerSample = kernels.Mat{}, kernels.Mat{}, kernels.Mat{}, kernels.Mat{}, 0
	b.DX = e.JunkMat(d, 5, cols, 0)
	e.B.NormBackward(&b)
	e.Out("dx without modulation", b.DX.Span)
}

func groupNorms() []Case {
	var all []Case
	for _, d := range floats {
		for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 6, 2}, {1, 64, 32, 32}, {2, 65, 33, 3}, {1, 130, 128, 32}, {3, 200, 40, 4}, {2, 600, 12, 3}} {
			n, hw, c, groups := s[0], s[1], s[2], s[3]
			for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
				name := fmt.Sprintf("%s %v %s", d, s, act)
				make := func(e *Env) kernels.GroupNorm {
					return kernels.GroupNorm{X: e.Floats(d, n*hw*c, 2), Y: e.Junk(d, n*hw*c), N: n, HW: hw, C: c, Groups: groups, Eps: 1e-5, Act: act,
						Weight: e.Floats(kernels.F32, c, 1), Bias: e.Floats(d, c, 1), Mean: e.Junk(kernels.F32, n*groups), Rstd: e.Junk(kernels.F32, n*groups)}
				}
				all = append(all, Case{"GroupNorm", name, func(e *Env) {
					a := make(e)
					e.B.GroupNorm(&a)
					e.Out("y", a.Y)
					e.Out("mean", a.Mean)
					e.Out("rstd", a.Rstd)
					e.Near("y", a.Y, groupNormFormula(e, &a), slack(d), slack(d))
				}}, Case{"GroupNormBackward", name, func(e *Env) {
					a := kernels.GroupNormBackward{GroupNorm: make(e), DY: e.Floats(d, n*hw*c, 1), DX: e.Junk(d, n*hw*c),
						DWeight: e.Floats(kernels.F32, c, 1), DBias: e.Floats(kernels.F32, c, 1)}
					e.B.GroupNorm(&a.GroupNorm)
					e.B.GroupNormBackward(&a)
					e.Out("dx", a.DX)
					e.Out("dweight", a.DWeight)
					e.Out("dbias", a.DBias)
				}})
			}
		}
	}
	return all
}

// groupNormFormula is Y in float64, the variance about the mean.
func groupNormFormula(e *Env, a *kernels.GroupNorm) []float64 {
	x, w, b := e.Numbers(a.X), e.Numbers(a.Weight), e.Numbers(a.Bias)
	per := a.C / a.Groups
	y := make([]float64, len(x))
	for n := range a.N {
		for group := range a.Groups {
			each := func(f func(i, c int)) {
				for p := range a.HW {
					for c := group * per; c < (group+1)*per; c++ {
						f((n*a.HW+p)*a.C+c, c)
					}
				}
			}
			count, mean, variance := float64(a.HW*per), 0.0, 0.0
			each(func(i, _ int) { mean += x[i] / count })
			each(func(i, _ int) { variance += (x[i] - mean) * (x[i] - mean) / count })
			each(func(i, c int) {
				y[i] = (x[i]-mean)/math.Sqrt(variance+float64(a.Eps))*w[c] + b[c]
				if a.Act == kernels.SiLU {
					y[i] /= 1 + math.Exp(-y[i])
				}
			})
		}
	}
	return y
}
