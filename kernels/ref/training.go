package ref

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Row, for samples lo to hi-1:
//
//	mean = A·x, then mean = fma(B[i], out[i], mean) in the order of i
//	next = fma(C, noise, mean), or mean itself where there is no noise
//	Square = sum of d², d = next - mean: terms in fp32, the sum as in Reduce
//
// Next is taken as it was before it is rounded for storage, unless it is Given.
func Row(a *kernels.Row, lo, hi int) {
	n := a.X.Cols
	mean, next, v := make([]float32, n), make([]float32, n), make([]float32, n)
	for s := lo; s < hi; s++ {
		LoadRow(mean, a.X, s)
		for i := range mean {
			mean[i] = Mul(a.A[s], mean[i])
		}
		for k, out := range a.Out {
			LoadRow(v, out, s)
			for i := range mean {
				mean[i] = FMA(a.B[k][s], v[i], mean[i])
			}
		}
		storeIf(a.Mean, s, mean)
		switch {
		case a.Given:
			LoadRow(next, a.Next, s)
		case a.Noise.Empty():
			copy(next, mean)
		default:
			LoadRow(v, a.Noise, s)
			for i := range next {
				next[i] = FMA(a.C[s], v[i], mean[i])
			}
		}
		if !a.Given {
			storeIf(a.Next, s, next)
		}
		if !a.Square.Empty() {
			var l lanes64
			for i := range next {
				d := Sub(next[i], mean[i])
				l.add(i, Mul(d, d))
			}
			a.Square.F64()[s] = l.total()
		}
	}
}

// AdamW, for elements lo to hi-1. With g = Grad·GradScale:
//
//	M = fma(1-Beta1, g - M, M);  V = fma(1-Beta2, g², Beta2·V)
//	P = P·(1 - Rate·Decay) - (Step·M) / fma(sqrt(V), RootScale, Eps)
func AdamW(a *kernels.AdamW, lo, hi int) {
	p, g, m, v := a.P.F32(), a.Grad.F32(), a.M.F32(), a.V.F32()
	c1, c2 := a.New()
	beta2, keep := float32(a.Beta2), Sub(1, Mul(a.Rate, a.Decay))
	for i := lo; i < hi; i++ {
		gi := Mul(g[i], a.GradScale)
		m[i] = FMA(c1, Sub(gi, m[i]), Flush(m[i]))
		v[i] = FMA(c2, Mul(gi, gi), Mul(beta2, v[i]))
		p[i] = Sub(Mul(p[i], keep), Div(Mul(a.Step, m[i]), FMA(Sqrt(v[i]), a.RootScale, a.Eps)))
	}
}

// Row computes every sample.
func (Backend) Row(a *kernels.Row) { Row(a, 0, a.X.Rows) }

// AdamW updates every element.
func (Backend) AdamW(a *kernels.AdamW) { AdamW(a, 0, a.P.Len) }

// Normal fills elements lo to hi-1 of Y with package rng's normals: element i is the
// stream's normal Start + i, rounded to Y's type. So any part can be drawn alone.
func Normal(a *kernels.Normal, lo, hi int) {
	z := make([]float32, hi-lo)
	rng.Key{Philox: a.Key, Stream: a.Stream}.Normal(z, a.Start+uint64(lo))
	Store(a.Y, lo, z)
}

// Normal draws normals.
func (Backend) Normal(a *kernels.Normal) { Normal(a, 0, a.Y.Len) }
