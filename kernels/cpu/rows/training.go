package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// AdamW is ref.AdamW.
func (e *Engine) AdamW(a *kernels.AdamW, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.AdamW(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	c1, c2 := a.New()
	w.s = [8]float32{a.GradScale, c1, c2, float32(a.Beta2), a.RootScale, a.Eps, a.Step,
		ref.Sub(1, ref.Mul(a.Rate, a.Decay))}
	for at := lo; at < hi; at += longest / 2 {
		n := min(longest/2, hi-at)
		p, g, m, v := from(a.P, at), from(a.Grad, at), from(a.M, at), from(a.V, at)
		w.apply(momentum, n, m, g, m)
		w.apply(variance, n, v, g, v)
		w.apply(descend, n, p, p, m, v)
	}
}

// Embedding is ref.Embedding.
func (e *Engine) Embedding(a *kernels.Embedding, lo, hi int) {
	n := a.Table.Cols
	if e.set == nil || n == 0 {
		ref.Embedding(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for r := lo; r < hi; r++ {
		w.apply(actIdentity, n, rowOf(a.Y, r), rowOf(a.Table, int(a.Index.I32()[r])))
	}
}

// EmbeddingBackward is ref.EmbeddingBackward.
func (e *Engine) EmbeddingBackward(a *kernels.EmbeddingBackward, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.EmbeddingBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for r := range a.DY.Rows {
		d := rowOf(a.DTable, int(a.Index.I32()[r])).at(lo)
		w.apply(add, hi-lo, d, d, rowOf(a.DY, r).at(lo))
	}
}

// SumRows is ref.SumRows.
func (e *Engine) SumRows(a *kernels.SumRows, lo, hi int) {
	if e.set == nil || lo == hi || a.X.Empty() {
		ref.SumRows(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	n := hi - lo
	out := a.Out.F32()[lo:hi]
	if !a.Accumulate {
		clear(out)
	}
	segments := a.Segments
	if len(segments) == 0 {
		segments = []int{a.X.Rows}
	}
	r := 0
	for _, rows := range segments {
		acc := w.filled(0, n, 0)
		if rows > 0 {
			w.columns(columnSum, acc, rows, []operand{rowOf(a.X, r).at(lo)}, []int{a.X.Stride})
		}
		w.apply(add, n, own(out), own(out), own(acc))
		r += rows
	}
}
