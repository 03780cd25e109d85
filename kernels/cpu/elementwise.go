package cpu

import "github.com/darkroom-rl/darkroom/kernels"

// Unary computes every element.
func (b *Backend) Unary(a *kernels.Unary) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Unary(a, lo, hi) })
}

// UnaryBackward computes every element.
func (b *Backend) UnaryBackward(a *kernels.UnaryBackward) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.UnaryBackward(a, lo, hi) })
}

// Binary computes every element.
func (b *Backend) Binary(a *kernels.Binary) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Binary(a, lo, hi) })
}

// Axpby computes every element.
func (b *Backend) Axpby(a *kernels.Axpby) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Axpby(a, lo, hi) })
}

// Modulate computes every row.
func (b *Backend) Modulate(a *kernels.Modulate) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Modulate(a, lo, hi) })
}

// Gated computes every row.
func (b *Backend) Gated(a *kernels.Gated) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Gated(a, lo, hi) })
}

// GLU computes every row.
func (b *Backend) GLU(a *kernels.GLU) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.GLU(a, lo, hi) })
}

// GLUBackward computes every row.
func (b *Backend) GLUBackward(a *kernels.GLUBackward) {
	b.byRows(a.DY.Rows, a.DY.Cols, func(lo, hi int) { b.rows.GLUBackward(a, lo, hi) })
}
