package cpu

import "github.com/darkroom-rl/darkroom/kernels"

// AdamW updates every element.
func (b *Backend) AdamW(a *kernels.AdamW) {
	b.pool.rows(a.P.Len, pieceElements, func(lo, hi int) { b.rows.AdamW(a, lo, hi) })
}

// Row computes every sample.
func (b *Backend) Row(a *kernels.Row) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Row(a, lo, hi) })
}
