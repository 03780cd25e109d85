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

// Modulate, for rows lo to hi-1: fma(x, 1 + scale, shift).
func Modulate(a *kernels.Modulate, lo, hi int) {
	n := a.X.Cols
	x, scale, shift := make([]float32, n), make([]float32, n), make([]float32, n)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		LoadRow(scale, a.Scale, r/a.RowsPerSample)
		LoadRow(shift, a.Shift, r/a.RowsPerSample)
		for i, v := range x {
			x[i] = FMA(v, Add(1, scale[i]), shift[i])
		}
		StoreRow(a.Y, r, x)
	}
}

// ModulateBackward, for samples lo to hi-1: DX = DY·(1 + scale); DShift is the sum of
// DY, and DScale of DY·X (fused), over the sample's rows, one after another from +0.
func ModulateBackward(a *kernels.ModulateBackward, lo, hi int) {
	n := a.X.Cols
	x, dy, scale := make([]float32, n), make([]float32, n), make([]float32, n)
	for s := lo; s < hi; s++ {
		LoadRow(scale, a.Scale, s)
		dscale, dshift := make([]float32, n), make([]float32, n)
		for r := s * a.RowsPerSample; r < min((s+1)*a.RowsPerSample, a.DY.Rows); r++ {
			LoadRow(x, a.X, r)
			LoadRow(dy, a.DY, r)
			for i, d := range dy {
				dshift[i] = Add(dshift[i], d)
				dscale[i] = FMA(d, x[i], dscale[i])
				x[i] = Mul(d, Add(1, scale[i]))
			}
			storeIf(a.DX, r, x)
		}
		storeIf(a.DScale, s, dscale)
		storeIf(a.DShift, s, dshift)
	}
}

// Gated, for rows lo to hi-1: fma(x, gate, residual).
func Gated(a *kernels.Gated, lo, hi int) {
	n := a.X.Cols
	x, res, gate := make([]float32, n), make([]float32, n), make([]float32, n)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		LoadRow(res, a.Residual, r)
		LoadRow(gate, a.Gate, r/a.RowsPerSample)
		for i, v := range x {
			x[i] = FMA(v, gate[i], res[i])
		}
		StoreRow(a.Y, r, x)
	}
}

// GatedBackward, for samples lo to hi-1: DX = DY·gate; DGate is the sum of DY·X (fused)
// over the sample's rows, one after another from +0.
func GatedBackward(a *kernels.GatedBackward, lo, hi int) {
	n := a.DY.Cols
	x, dy, gate := make([]float32, n), make([]float32, n), make([]float32, n)
	for s := lo; s < hi; s++ {
		LoadRow(gate, a.Gate, s)
		dgate := make([]float32, n)
		for r := s * a.RowsPerSample; r < min((s+1)*a.RowsPerSample, a.DY.Rows); r++ {
			LoadRow(x, a.X, r)
			LoadRow(dy, a.DY, r)
			for i, d := range dy {
				dgate[i] = FMA(d, x[i], dgate[i])
				x[i] = Mul(d, gate[i])
			}
			storeIf(a.DX, r, x)
		}
		storeIf(a.DGate, s, dgate)
	}
}

// storeIf stores a row of a destination that may be absent.
func storeIf(m kernels.Mat, r int, row []float32) {
	if !m.Empty() {
		StoreRow(m, r, row)
	}
}

// GLU, for rows lo to hi-1: x·act(gate).
func GLU(a *kernels.GLU, lo, hi int) {
	x, gate := make([]float32, a.X.Cols), make([]float32, a.X.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		LoadRow(gate, a.Gate, r)
		for i, v := range x {
			x[i] = Mul(v, Activate(a.Act, gate[i]))
		}
		StoreRow(a.Y, r, x)
	}
}

// GLUBackward, for rows lo to hi-1: DX = dy·act(gate), DGate = (dy·x)·act'(gate).
func GLUBackward(a *kernels.GLUBackward, lo, hi int) {
	n := a.DY.Cols
	x, gate, dy := make([]float32, n), make([]float32, n), make([]float32, n)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		LoadRow(gate, a.Gate, r)
		LoadRow(dy, a.DY, r)
		for i, d := range dy {
			dy[i] = Mul(d, Activate(a.Act, gate[i]))
			gate[i] = Mul(Mul(d, x[i]), ActivateGrad(a.Act, gate[i]))
		}
		storeIf(a.DX, r, dy)
		storeIf(a.DGate, r, gate)
	}
}

// Modulate computes every row.
func (Backend) Modulate(a *kernels.Modulate) { Modulate(a, 0, a.X.Rows) }

// ModulateBackward computes every sample.
func (Backend) ModulateBackward(a *kernels.ModulateBackward) {
	ModulateBackward(a, 0, Samples(a.DY.Rows, a.RowsPerSample))
}

// Gated computes every row.
func (Backend) Gated(a *kernels.Gated) { Gated(a, 0, a.X.Rows) }

// GatedBackward computes every sample.
func (Backend) GatedBackward(a *kernels.GatedBackward) {
	GatedBackward(a, 0, Samples(a.DY.Rows, a.RowsPerSample))
}

// GLU computes every row.
func (Backend) GLU(a *kernels.GLU) { GLU(a, 0, a.X.Rows) }

// GLUBackward computes every row.
func (Backend) GLUBackward(a *kernels.GLUBackward) { GLUBackward(a, 0, a.DY.Rows) }
