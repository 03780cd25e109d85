package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
