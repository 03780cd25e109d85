package rows

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Activate applies an activation to numbers in place.
func (e *Engine) Activate(op kernels.UnaryOp, v []float32) {
	if e.set == nil || len(v) == 0 {
		for i, x := range v {
			v[i] = ref.Activate(op, x)
		}
		return
	}
	w := e.begin()
	defer w.end(e)
	w.apply(actIdentity+kernel(op), len(v), own(v), own(v))
}

// Unary is ref.Unary.
func (e *Engine) Unary(a *kernels.Unary, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.Unary(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	w.apply(actIdentity+kernel(a.Op), hi-lo, from(a.Y, lo), from(a.X, lo))
}

// UnaryBackward is ref.UnaryBackward.
func (e *Engine) UnaryBackward(a *kernels.UnaryBackward, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.UnaryBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	w.apply(gradIdentity+kernel(a.Op), hi-lo, from(a.DX, lo), from(a.X, lo), from(a.DY, lo))
}

// Binary is ref.Binary. A short Y is repeated in scratch, so that no call is short.
func (e *Engine) Binary(a *kernels.Binary, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.Binary(a, lo, hi)
		return
	}
	period := a.Y.Len
	if a.X.Len%period != 0 {
		panic(fmt.Sprintf("kernels: Binary of %d and %d elements", a.X.Len, period))
	}
	w := e.begin()
	defer w.end(e)
	y := from(a.Y, 0)
	if period < a.X.Len && period < longest/4 {
		row := w.row(0, longest/period*period)
		ref.Load(row[:period], a.Y, 0)
		for n := period; n < len(row); n *= 2 {
			copy(row[n:], row[:n])
		}
		y, period = own(row), len(row)
	}
	for at := lo; at < hi; {
		n := min(hi-at, period-at%period)
		w.apply(add+kernel(a.Op), n, from(a.Z, at), from(a.X, at), y.at(at%period))
		at += n
	}
}

// Axpby is ref.Axpby.
func (e *Engine) Axpby(a *kernels.Axpby, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.Axpby(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	w.s[0], w.s[1] = a.A, a.B
	y := from(a.Y, lo)
	if a.B == 0 {
		w.apply(times, hi-lo, y, from(a.X, lo))
		return
	}
	w.apply(axpby, hi-lo, y, from(a.X, lo), y)
}

// GLU is ref.GLU.
func (e *Engine) GLU(a *kernels.GLU, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.GLU(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	act := own(w.row(0, n))
	for r := lo; r < hi; r++ {
		w.apply(actIdentity+kernel(a.Act), n, act, rowOf(a.Gate, r))
		w.apply(mul, n, rowOf(a.Y, r), rowOf(a.X, r), act)
	}
}

// GLUBackward is ref.GLUBackward.
func (e *Engine) GLUBackward(a *kernels.GLUBackward, lo, hi int) {
	n := a.DY.Cols
	if e.set == nil || n == 0 {
		ref.GLUBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	act, dx := own(w.row(0, n)), own(w.row(1, n))
	for r := lo; r < hi; r++ {
		dy, x, gate := rowOf(a.DY, r), rowOf(a.X, r), rowOf(a.Gate, r)
		w.apply(actIdentity+kernel(a.Act), n, act, gate)
		w.apply(mul, n, dx, dy, act) // kept: a destination may be an operand's memory
		if !a.DGate.Empty() {
			w.apply(mul, n, act, dy, x)
			w.apply(gradIdentity+kernel(a.Act), n, rowOf(a.DGate, r), gate, act)
		}
		if !a.DX.Empty() {
			w.apply(actIdentity, n, rowOf(a.DX, r), dx)
		}
	}
}

// Modulate is ref.Modulate.
func (e *Engine) Modulate(a *kernels.Modulate, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.Modulate(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for r := lo; r < hi; r++ {
		s := r / a.RowsPerSample
		w.apply(modulate, n, rowOf(a.Y, r), rowOf(a.X, r), rowOf(a.Scale, s), rowOf(a.Shift, s))
	}
}

// ModulateBackward is ref.ModulateBackward.
func (e *Engine) ModulateBackward(a *kernels.ModulateBackward, lo, hi int) {
	n := a.DY.Cols
	if e.set == nil || n == 0 {
		ref.ModulateBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for s := lo; s < hi; s++ {
		first, last := s*a.RowsPerSample, min((s+1)*a.RowsPerSample, a.DY.Rows)
		w.rowSums(sumsOf{a.DY, a.X, first, last}, a.DScale, a.DShift, s)
		if a.DX.Empty() {
			continue
		}
		scale := w.row(0, n)
		w.apply(onePlus, n, own(scale), rowOf(a.Scale, s))
		for r := first; r < last; r++ {
			w.apply(mul, n, rowOf(a.DX, r), rowOf(a.DY, r), own(scale))
		}
	}
}

// sumsOf is a sample's rows of DY and X.
type sumsOf struct {
	dy, x       kernels.Mat
	first, last int
}

// rowSums puts sum(DY·X) and sum(DY) of a sample into row s of the destinations that
// are there.
func (w *work) rowSums(o sumsOf, dot, sum kernels.Mat, s int) {
	n := o.dy.Cols
	for i, m := range []kernels.Mat{dot, sum} {
		if m.Empty() {
			continue
		}
		acc := w.filled(1, n, 0)
		if o.first < o.last {
			dy := rowOf(o.dy, o.first)
			if i == 0 {
				w.columns(columnDot, acc, o.last-o.first, []operand{dy, rowOf(o.x, o.first)}, []int{o.dy.Stride, o.x.Stride})
			} else {
				w.columns(columnSum, acc, o.last-o.first, []operand{dy}, []int{o.dy.Stride})
			}
		}
		w.apply(actIdentity, n, rowOf(m, s), own(acc))
	}
}

// Gated is ref.Gated.
func (e *Engine) Gated(a *kernels.Gated, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.Gated(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for r := lo; r < hi; r++ {
		w.apply(fma, n, rowOf(a.Y, r), rowOf(a.X, r), rowOf(a.Gate, r/a.RowsPerSample), rowOf(a.Residual, r))
	}
}

// GatedBackward is ref.GatedBackward.
func (e *Engine) GatedBackward(a *kernels.GatedBackward, lo, hi int) {
	n := a.DY.Cols
	if e.set == nil || n == 0 {
		ref.GatedBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for s := lo; s < hi; s++ {
		first, last := s*a.RowsPerSample, min((s+1)*a.RowsPerSample, a.DY.Rows)
		w.rowSums(sumsOf{a.DY, a.X, first, last}, a.DGate, kernels.Mat{}, s)
		if a.DX.Empty() {
			continue
		}
		for r := first; r < last; r++ {
			w.apply(mul, n, rowOf(a.DX, r), rowOf(a.DY, r), rowOf(a.Gate, s))
		}
	}
}
