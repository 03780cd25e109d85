package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Products is, sample by sample, x[b] y[b]ᵀ: of rows x [B, S, C] and y [B, Q, C] the inner products [B, S, Q].
//
//	dx = dz y    dy = dzᵀ x
func (tp *Tape) Products(x, y *Value) *Value {
	if x.t.Rank() != 3 || y.t.Rank() != 3 || x.Dim(0) != y.Dim(0) || x.Dim(2) != y.Dim(2) {
		panic(fmt.Sprintf("autograd: Products of %v and %v", x.t, y.t))
	}
	b, s, q := x.Dim(0), x.Dim(1), y.Dim(1)
	z := tp.result("products", tp.pool.New(tp.DType, b, s, q), x, y)
	tp.samples(b, kernels.NT, x.t, y.t, z.t)
	if n := tp.record(z); n != nil {
		xs, ys := n.save(x.t), n.save(y.t)
		n.back = func() {
			if dx := tp.needed(x); dx != nil {
				tp.samples(b, kernels.NN, z.grad, ys, dx)
				tp.give(x, dx)
			}
			if dy := tp.needed(y); dy != nil {
				tp.samples(b, kernels.TN, z.grad, xs, dy)
				tp.give(y, dy)
			}
		}
	}
	return z
}

// samples is a product of every sample's rows.
func (tp *Tape) samples(n int, l kernels.Layout, x, y, z *tensor.Tensor) {
	rows := func(t *tensor.Tensor, i int) kernels.Mat {
		each := t.Rows() / n
		return t.Mat().RowRange(i*each, (i+1)*each)
	}
	for i := range n {
		tp.be.Gemm(&kernels.Gemm{Layout: l, Math: tp.Math, A: rows(x, i), B: rows(y, i), C: rows(z, i)})
	}
}
