package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Embedding copies rows of the table, for rows lo to hi-1 of Y.
func Embedding(a *kernels.Embedding, lo, hi int) {
	row := make([]float32, a.Table.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(row, a.Table, int(a.Index.I32()[r]))
		StoreRow(a.Y, r, row)
	}
}

// EmbeddingBackward adds rows of DY to rows of DTable, in order, at columns lo to hi-1.
func EmbeddingBackward(a *kernels.EmbeddingBackward, lo, hi int) {
	row := make([]float32, hi-lo)
	for r := range a.DY.Rows {
		Load(row, a.DY.Span, r*a.DY.Stride+lo)
		at := int(a.Index.I32()[r])*a.DTable.Stride + lo
		addTo(a.DTable.Span.Slice(at, at+hi-lo), row)
	}
}

// Embedding computes every row.
func (Backend) Embedding(a *kernels.Embedding) { Embedding(a, 0, a.Y.Rows) }

// EmbeddingBackward computes every column.
func (Backend) EmbeddingBackward(a *kernels.EmbeddingBackward) { EmbeddingBackward(a, 0, a.DY.Cols) }
