package cpu

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Rows are split so that a piece is some 32,000 elements: tens of microseconds.
const pieceElements = 1 << 15

// byRows calls f for pieces of the rows of a matrix of cols columns.
func (b *Backend) byRows(rows, cols int, f func(lo, hi int)) {
	b.pool.rows(rows, max(1, pieceElements/max(cols, 1)), f)
}

// byColumns calls f for ranges of columns, which are a multiple of 64 wide, of a sum
// down rows.
func (b *Backend) byColumns(rows, cols int, f func(lo, hi int)) {
	blocks := (cols + 63) / 64
	b.pool.rows(blocks, max(1, pieceElements/(64*max(rows, 1))), func(lo, hi int) { f(lo*64, min(hi*64, cols)) })
}

// Norm normalises every row.
func (b *Backend) Norm(a *kernels.Norm) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Norm(a, lo, hi) })
}

// NormBackward computes every gradient.
func (b *Backend) NormBackward(a *kernels.NormBackward) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.NormBackward(a, lo, hi) })
	b.byColumns(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.NormBackwardParams(a, lo, hi) })
}

// GroupNorm normalises every sample.
func (b *Backend) GroupNorm(a *kernels.GroupNorm) { b.rows.GroupNorm(a, b.pool.run) }

// GroupNormBackward computes every gradient.
func (b *Backend) GroupNormBackward(a *kernels.GroupNormBackward) {
	b.rows.GroupNormBackward(a, b.pool.run)
}

// Softmax computes every row.
func (b *Backend) Softmax(a *kernels.Softmax) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Softmax(a, lo, hi) })
}

// SoftmaxBackward computes every row.
func (b *Backend) SoftmaxBackward(a *kernels.SoftmaxBackward) {
	b.byRows(a.Y.Rows, a.Y.Cols, func(lo, hi int) { b.rows.SoftmaxBackward(a, lo, hi) })
}

// LogSoftmaxGather computes every row.
func (b *Backend) LogSoftmaxGather(a *kernels.LogSoftmaxGather) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.LogSoftmaxGather(a, lo, hi) })
}

// LogSoftmaxGatherBackward computes every row.
func (b *Backend) LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.LogSoftmaxGatherBackward(a, lo, hi) })
}

// Draw draws every row's token.
func (b *Backend) Draw(a *kernels.Draw) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Draw(a, lo, hi) })
}

// Embedding computes every row.
func (b *Backend) Embedding(a *kernels.Embedding) {
	b.byRows(a.Y.Rows, a.Y.Cols, func(lo, hi int) { b.rows.Embedding(a, lo, hi) })
}

// EmbeddingBackward adds every row, a range of columns at a time.
func (b *Backend) EmbeddingBackward(a *kernels.EmbeddingBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) { b.rows.EmbeddingBackward(a, lo, hi) })
}

// SumRows computes every column.
func (b *Backend) SumRows(a *kernels.SumRows) {
	b.byColumns(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.SumRows(a, lo, hi) })
}

// Reduce computes every row.
func (b *Backend) Reduce(a *kernels.Reduce) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Reduce(a, lo, hi) })
}

// ModulateBackward computes every gradient, a range of columns at a time.
func (b *Backend) ModulateBackward(a *kernels.ModulateBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) {
		c := *a
		for _, m := range []*kernels.Mat{&c.X, &c.Scale, &c.DY, &c.DX, &c.DScale, &c.DShift} {
			cut(m, lo, hi)
		}
		b.rows.ModulateBackward(&c, 0, ref.Samples(a.DY.Rows, a.RowsPerSample))
	})
}

// GatedBackward computes every gradient, a range of columns at a time.
func (b *Backend) GatedBackward(a *kernels.GatedBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) {
		c := *a
		for _, m := range []*kernels.Mat{&c.X, &c.Gate, &c.DY, &c.DX, &c.DGate} {
			cut(m, lo, hi)
		}
		b.rows.GatedBackward(&c, 0, ref.Samples(a.DY.Rows, a.RowsPerSample))
	})
}

// cut narrows a matrix, if it is there, to a range of columns.
func cut(m *kernels.Mat, lo, hi int) {
	if !m.Empty() {
		*m = m.ColRange(lo, hi)
	}
}
