package cpu

import "github.com/darkroom-rl/darkroom/kernels"

// Operations of products and attention that Dry was asked for: two a multiply-add, of attention those of the scores
// that are seen. A network's other operations are not counted.

// Operations are all of them so far.
func (d *Dry) Operations() float64 { return d.operations }

// multiply counts a product without a pair, with either operand turned.
func (d *Dry) multiply(a *kernels.Gemm) {
	k := a.A.Cols
	if a.Layout == kernels.TN {
		k = a.A.Rows
	}
	d.operations += 2 * float64(a.C.Rows) * float64(a.C.Cols) * float64(k)
}

// windows are the operations of a convolution: the product of its windows.
func windows(a *kernels.Conv) float64 {
	oh, ow := a.Shape.OutSize(a.H, a.W)
	return 2 * float64(a.N*oh*ow) * float64(a.Shape.Out) * float64(a.Shape.KH*a.Shape.KW*a.Shape.In)
}

// Attention has two products, its backward five.
func (d *Dry) Attention(a *kernels.Attention) { d.operations += 2 * scores(a) }

// AttentionBackward counts them.
func (d *Dry) AttentionBackward(a *kernels.AttentionBackward) {
	d.operations += 5 * scores(&a.Attention)
}

// scores are the operations of one product of attention.
func scores(a *kernels.Attention) float64 {
	seen := float64(a.Q.S) * float64(a.K.S)
	if a.Causal {
		seen = float64(a.Q.S) * (float64(a.K.S) - float64(a.Q.S-1)/2)
	}
	return 2 * float64(a.Q.B*a.Q.H*a.Q.D) * seen
}
