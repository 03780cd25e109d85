package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Attention: o = softmax(scale · q kᵀ + bias, masked) v for each head. Backward works the
// probabilities out again from the saved logarithms of their sums.

// Attend says how queries look at keys.
type Attend struct {
	Heads   int
	KVHeads int     // 0 means Heads
	Scale   float32 // 0 means 1/sqrt(head dimension)
	Causal  bool
	KeyLens []int32 // one a sample, optional: keys at and after it are not seen
	// Bias, optional, F32 [1 or B, Heads, Sq, Sk], is added to the scaled scores. One that
	// samples share gets the sum of their gradients, whose bits depend on the micro-batch.
	Bias  *Value
	Place // where the result is made, if it fits
}

// Attention is q [B, Sq, Heads·D] over k [B, Sk, KVHeads·D] and v [B, Sk, KVHeads·Dv].
func (tp *Tape) Attention(q, k, v *Value, o Attend) *Value {
	if o.KVHeads == 0 {
		o.KVHeads = o.Heads
	}
	a := kernels.Attention{Math: tp.Math, Q: q.t.Heads(o.Heads), K: k.t.Heads(o.KVHeads), V: v.t.Heads(o.KVHeads),
		Scale: o.Scale, Causal: o.Causal, KeyLens: o.KeyLens, Bias: attentionBias(o, q, k)}
	if a.Scale == 0 {
		a.Scale = float32(1 / sqrt(float64(a.Q.D)))
	}
	y := tp.result("attention", o.take(tp, tp.DType, widen(q.Shape(), o.Heads*a.V.D)...), q, k, v, o.Bias)
	a.O = y.t.Heads(o.Heads)
	n := tp.record(y)
	if n == nil {
		tp.be.Attention(&a)
		return y
	}
	lse := n.hold(tp.pool.New(kernels.F32, a.Q.B, a.Q.H, a.Q.S))
	a.LSE = lse.Span()
	tp.be.Attention(&a)
	for _, x := range []*Value{q, k, v, y} {
		n.save(x.t)
	}
	if o.Bias != nil {
		n.save(o.Bias.t)
	}
	n.back = func() {
		// The kernel writes all three gradients; those that nobody needs are dropped.
		dq, dk, dv := tp.likeGrad(q), tp.likeGrad(k), tp.likeGrad(v)
		delta := tp.pool.New(kernels.F32, lse.Shape()...)
		b := kernels.AttentionBackward{Attention: a, DO: y.grad.Heads(o.Heads),
			DQ: dq.Heads(o.Heads), DK: dk.Heads(o.KVHeads), DV: dv.Heads(o.KVHeads), Delta: delta.Span()}
		dbias := tp.needed(o.Bias)
		if dbias != nil {
			b.DBias = dbias.Span()
			tp.be.Fill(b.DBias, 0)
		}
		tp.be.AttentionBackward(&b)
		tp.giveIf(o.Bias, dbias)
		delta.Free()
		tp.giveOrFree(q, dq)
		tp.giveOrFree(k, dk)
		tp.giveOrFree(v, dv)
	}
	return y
}

// giveOrFree hands over a gradient that was worked out whether needed or not.
func (tp *Tape) giveOrFree(x *Value, g *tensor.Tensor) {
	if x.needs {
		tp.give(x, g)
	} else {
		g.Free()
	}
}

func attentionBias(o Attend, q, k *Value) kernels.AttentionBias {
	if o.Bias == nil {
		return kernels.AttentionBias{}
	}
	t, sq, sk := o.Bias.t, q.Dim(-2), k.Dim(-2)
	if t.Rank() != 4 || t.DType() != kernels.F32 || t.Dim(1) != o.Heads || t.Dim(2) != sq || t.Dim(3) != sk {
		panic(fmt.Sprintf("autograd: Attention: bias %v for %d heads, %d queries and %d keys", t, o.Heads, sq, sk))
	}
	b := kernels.AttentionBias{Span: t.Span(), SB: o.Heads * sq * sk, SH: sq * sk, SQ: sk}
	if t.Dim(0) == 1 {
		b.SB = 0
	}
	return b
}

// Rope turns x [B, S, heads·D] by angles whose cosines and sines, F32 [S or B·S, D/2], are
// given: places of tokens.
func (tp *Tape) Rope(x *Value, heads int, cos, sin *Value, kind kernels.RopeKind) *Value {
	y := tp.result("rope", tp.pool.New(x.t.DType(), x.Shape()...), x)
	r := kernels.Rope{Kind: kind, X: x.t.Heads(heads), Y: y.t.Heads(heads), Cos: cos.t.Mat(), Sin: sin.t.Mat()}
	tp.be.Rope(&r)
	if n := tp.record(y); n != nil {
		n.save(cos.t)
		n.save(sin.t)
		n.back = func() {
			dx := tp.likeGrad(x)
			r.X, r.Y, r.Inverse = y.grad.Heads(heads), dx.Heads(heads), true
			tp.be.Rope(&r)
			tp.give(x, dx)
		}
	}
	return y
}
