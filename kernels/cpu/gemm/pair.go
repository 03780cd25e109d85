package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A product with a pair is two products, as in package ref. Those of NT go by blocks of rows, so that the pair's sums
// stay in cache until the product takes them up, and need no memory for all rows. Rows know nothing of each other:
// blocks change no bit.

// pairBudget bounds the pair's sums of a block, in bytes; a block has at least pairRows rows.
const (
	pairBudget = 8 << 20
	pairRows   = 384
)

// PairScratch is the memory of the pair's sums in a product of m rows and n columns.
func PairScratch(m, n int) int { return 4 * n * min(m, max(pairRows, pairBudget/max(4*n, 1))) }

func (e *Engine) paired(a *kernels.Gemm, m, n int, par Parallel) {
	if a.Layout == kernels.NN {
		first, second := a.Apart(kernels.Mat{})
		e.Gemm(first, par)
		e.Gemm(second, par)
		return
	}
	rows := PairScratch(m, n) / (4 * n)
	if a.W == nil { // a block would pack the right side anew
		rows = m
	}
	s := e.stages.take(4 * n * rows)
	defer e.stages.put(s)
	u := &kernels.Buffer{Host: unsafe.Slice((*byte)(s.get(0)), 4*n*rows)}
	for lo := 0; lo < m; {
		hi := min(lo+rows, m)
		switch each := a.GateRows; { // a block has whole samples, or is of one
		case a.Gate.Empty():
		case lo%each == 0 && rows >= each:
			hi = min(hi, lo+rows/each*each)
		default:
			hi = min(hi, lo-lo%each+each)
		}
		sums := kernels.NewMat(kernels.Span{Buf: u, Len: n * (hi - lo), DType: kernels.F32}, hi-lo, n)
		first, second := rowsOf(a, lo, hi).Apart(sums)
		e.Gemm(first, par)
		e.Gemm(second, par)
		lo = hi
	}
}

// rowsOf are rows lo to hi-1 of a product with a pair.
func rowsOf(a *kernels.Gemm, lo, hi int) *kernels.Gemm {
	part, pair := *a, *a.Pair
	part.Pair = &pair
	for _, m := range []*kernels.Mat{&part.A, &part.C, &part.Pre, &part.Residual, &pair.A, &pair.Pre} {
		if !m.Empty() {
			*m = m.RowRange(lo, hi)
		}
	}
	if each := a.GateRows; !a.Gate.Empty() {
		part.Gate = a.Gate.RowRange(lo/each, (hi-1)/each+1)
		if (hi-1)/each == lo/each {
			part.GateRows = hi - lo
		}
	}
	return &part
}
