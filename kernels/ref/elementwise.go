package ref

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// piece is how many elements an element-wise loop widens at a time.
const piece = 256

// pieces calls f for runs of at most piece elements of [lo, hi).
func pieces(lo, hi int, f func(at, n int)) {
	for ; lo < hi; lo += piece {
		f(lo, min(piece, hi-lo))
	}
}

// Unary, for elements lo to hi-1.
func Unary(a *kernels.Unary, lo, hi int) {
	var x [piece]float32
	pieces(lo, hi, func(at, n int) {
		Load(x[:n], a.X, at)
		activate(a.Op, x[:n])
		Store(a.Y, at, x[:n])
	})
}

// UnaryBackward, for elements lo to hi-1.
func UnaryBackward(a *kernels.UnaryBackward, lo, hi int) {
	var x, dy [piece]float32
	pieces(lo, hi, func(at, n int) {
		Load(x[:n], a.X, at)
		Load(dy[:n], a.DY, at)
		for i := range n {
			x[i] = Mul(dy[i], ActivateGrad(a.Op, x[i]))
		}
		Store(a.DX, at, x[:n])
	})
}

// Binary, for elements lo to hi-1. Y repeats where it is shorter.
func Binary(a *kernels.Binary, lo, hi int) {
	f := binary(a.Op)
	period := a.Y.Len
	if lo >= hi {
		return
	}
	if a.X.Len%period != 0 {
		panic(fmt.Sprintf("kernels: Binary of %d and %d elements", a.X.Len, period))
	}
	var x, y [piece]float32
	for at := lo; at < hi; {
		n := min(piece, hi-at, period-at%period)
		Load(x[:n], a.X, at)
		Load(y[:n], a.Y, at%period)
		for i := range n {
			x[i] = f(x[i], y[i])
		}
		Store(a.Z, at, x[:n])
		at += n
	}
}

func binary(op kernels.BinaryOp) func(a, b float32) float32 {
	switch op {
	case kernels.Add:
		return Add
	case kernels.Sub:
		return Sub
	case kernels.Mul:
		return Mul
	case kernels.Div:
		return Div
	}
	panic(fmt.Sprintf("ref: unknown function of two numbers %d", op))
}

// Axpby, for elements lo to hi-1: fma(B, y, A·x); A·x alone where B is 0.
func Axpby(a *kernels.Axpby, lo, hi int) {
	var x, y [piece]float32
	pieces(lo, hi, func(at, n int) {
		Load(x[:n], a.X, at)
		if a.B != 0 {
			Load(y[:n], a.Y, at)
		}
		for i := range n {
			v := Mul(a.A, x[i])
			if a.B != 0 {
				v = FMA(a.B, y[i], v)
			}
			y[i] = v
		}
		Store(a.Y, at, y[:n])
	})
}

// Fill sets every element.
func Fill(s kernels.Span, v float32) {
	var x [piece]float32
	for i := range x {
		x[i] = v
	}
	pieces(0, s.Len, func(at, n int) { Store(s, at, x[:n]) })
}

// Unary computes every element.
func (Backend) Unary(a *kernels.Unary) { Unary(a, 0, a.X.Len) }

// UnaryBackward computes every element.
func (Backend) UnaryBackward(a *kernels.UnaryBackward) { UnaryBackward(a, 0, a.X.Len) }

// Binary computes every element.
func (Backend) Binary(a *kernels.Binary) { Binary(a, 0, a.X.Len) }

// Axpby computes every element.
func (Backend) Axpby(a *kernels.Axpby) { Axpby(a, 0, a.X.Len) }

// Fill sets every element.
func (Backend) Fill(s kernels.Span, v float32) { Fill(s, v) }
