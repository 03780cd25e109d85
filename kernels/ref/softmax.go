package ref

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Softmax, for rows lo to hi-1: e = Exp(x - max), y = e·(1/sum(e)).
func Softmax(a *kernels.Softmax, lo, hi int) {
	x := make([]float32, a.X.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		m := largest(x)
		for i, v := range x {
			x[i] = Exp(Sub(v, m))
		}
		inv := Div(1, sum(x))
		for i, v := range x {
			x[i] = Mul(v, inv)
		}
		StoreRow(a.Y, r, x)
	}
}

// largest is the maximum of x; -Inf where x is empty. A NaN among the numbers shows
// in the sum that follows, so it need not show here.
func largest(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// SoftmaxBackward, for rows lo to hi-1: s = dot(y, dy), dx = y·(dy - s).
func SoftmaxBackward(a *kernels.SoftmaxBackward, lo, hi int) {
	y, dy := make([]float32, a.Y.Cols), make([]float32, a.Y.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(y, a.Y, r)
		LoadRow(dy, a.DY, r)
		s := dot(y, dy)
		for i := range y {
			y[i] = Mul(y[i], Sub(dy[i], s))
		}
		StoreRow(a.DX, r, y)
	}
}

// LogSoftmaxGather, for rows lo to hi-1, with z = x·(1/Temperature):
//
//	m = max z; s = sum(Exp(z - m)); LSE = m + Log(s); Out = z[index] - LSE
//	Entropy = LSE - dot(Exp(z - m), z)·(1/s); where Exp gives 0 the term is 0
func LogSoftmaxGather(a *kernels.LogSoftmaxGather, lo, hi int) {
	z, e := make([]float32, a.X.Cols), make([]float32, a.X.Cols)
	for r := lo; r < hi; r++ {
		scaled(z, a, r)
		m := largest(z)
		for i, v := range z {
			e[i] = Exp(Sub(v, m))
		}
		s := sum(e)
		lse := Add(m, Log(s))
		if !a.LSE.Empty() {
			a.LSE.F32()[r] = lse
		}
		if !a.Out.Empty() {
			out := float32(0)
			if i := a.Index.I32()[r]; i >= 0 {
				out = Sub(z[i], lse)
			}
			a.Out.F32()[r] = out
		}
		if !a.Entropy.Empty() {
			for i, v := range e {
				if v == 0 {
					z[i] = 0 // -Inf, a token that is ruled out, has no part in it
				}
			}
			a.Entropy.F32()[r] = Sub(lse, Mul(dot(e, z), Div(1, s)))
		}
	}
}

// scaled is row r of X over the temperature.
func scaled(z []float32, a *kernels.LogSoftmaxGather, r int) {
	LoadRow(z, a.X, r)
	if inv := InverseTemperature(a); inv != 1 {
		for i, v := range z {
			z[i] = Mul(v, inv)
		}
	}
}

// InverseTemperature is 1/Temperature, where 0 means 1.
func InverseTemperature(a *kernels.LogSoftmaxGather) float32 {
	if a.Temperature == 0 {
		return 1
	}
	return Div(1, a.Temperature)
}

// LogSoftmaxGatherBackward, for rows lo to hi-1, with d = DOut/Temperature:
// p = Exp(z - LSE); DX = -d·p, and at the index d - d·p. A row without an index gives zeros.
func LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward, lo, hi int) {
	z := make([]float32, a.X.Cols)
	inv := InverseTemperature(&a.LogSoftmaxGather)
	for r := lo; r < hi; r++ {
		index := int(a.Index.I32()[r])
		if index < 0 {
			clear(z)
			StoreRow(a.DX, r, z)
			continue
		}
		scaled(z, &a.LogSoftmaxGather, r)
		d, lse := Mul(Flush(a.DOut.F32()[r]), inv), a.LSE.F32()[r]
		for i, v := range z {
			z[i] = Mul(-d, Exp(Sub(v, lse)))
		}
		z[index] = Add(d, z[index])
		StoreRow(a.DX, r, z)
	}
}

// Softmax computes every row.
func (Backend) Softmax(a *kernels.Softmax) { Softmax(a, 0, a.X.Rows) }

// SoftmaxBackward computes every row.
func (Backend) SoftmaxBackward(a *kernels.SoftmaxBackward) { SoftmaxBackward(a, 0, a.Y.Rows) }

// LogSoftmaxGather computes every row.
func (Backend) LogSoftmaxGather(a *kernels.LogSoftmaxGather) { LogSoftmaxGather(a, 0, a.X.Rows) }

// LogSoftmaxGatherBackward computes every row.
func (Backend) LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward) {
	LogSoftmaxGatherBackward(a, 0, a.X.Rows)
}
