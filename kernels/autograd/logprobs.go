package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Softmax is the softmax of every row.
func (tp *Tape) Softmax(x *Value) *Value {
	y := tp.result("softmax", tp.pool.New(tp.DType, x.Shape()...), x)
	tp.be.Softmax(&kernels.Softmax{X: x.t.Mat(), Y: y.t.Mat()})
	if n := tp.record(y); n != nil {
		ys := n.save(y.t)
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.be.SoftmaxBackward(&kernels.SoftmaxBackward{Y: ys.Mat(), DY: y.grad.Mat(), DX: dx.Mat()})
			tp.give(x, dx)
		}
	}
	return y
}

// LogProbs is log softmax(x[r] / temperature)[index[r]], F32 [rows]: the log-probabilities
// of tokens. An index below zero gives 0 and no gradient.
func (tp *Tape) LogProbs(x *Value, index []int32, temperature float32) *Value {
	rows := x.t.Rows()
	y := tp.result("log-probabilities", tp.pool.New(kernels.F32, rows), x)
	at, lse := tp.pool.FromI32(index, rows), tp.pool.New(kernels.F32, rows)
	defer at.Free()
	defer lse.Free()
	a := kernels.LogSoftmaxGather{X: x.t.Mat(), Index: at.Span(), Temperature: temperature, Out: y.t.Span(), LSE: lse.Span()}
	tp.be.LogSoftmaxGather(&a)
	if n := tp.record(y); n != nil {
		n.save(x.t)
		n.save(at)
		n.save(lse)
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.be.LogSoftmaxGatherBackward(&kernels.LogSoftmaxGatherBackward{LogSoftmaxGather: a, DOut: y.grad.Span(), DX: dx.Mat()})
			tp.give(x, dx)
		}
	}
	return y
}

// Card: the head of a language model and the log-probabilities of tokens in one,
//
//	y[r] = log softmax(x[r] Wᵀ / temperature)[index[r]]
//
// without all logits in memory: tokenRows rows at a time, made again in backward from the saved
// logarithms of sums, as attention's scores are. dW is the sum over these stretches of rows, in
// order, which begin anew with each sample; so its bits depend on neither the micro-batch nor
// what other rows are in it. The invariant (test): y and dx have the bits of Linear and LogProbs.

// tokenRows is how many rows have logits at a time. It is part of dW's definition.
const tokenRows = 64

// TokenLogProbs is F32 [rows] for x [samples, rows, C] and a head W [vocabulary, C]. An index
// below zero gives 0 and no gradient.
func (tp *Tape) TokenLogProbs(x *Value, w *Param, index []int32, temperature float32) *Value {
	rows := x.t.Rows()
	if len(w.Shape) != 2 || x.t.Cols() != w.Shape[1] || len(index) != rows {
		panic(fmt.Sprintf("autograd: TokenLogProbs of %v and %d tokens with %s %v", x.t, len(index), w.Name, w.Shape))
	}
	y := tp.result("log-probabilities", tp.pool.New(kernels.F32, rows), x).needsParam(w)
	at, lse := tp.pool.FromI32(index, rows), tp.pool.New(kernels.F32, rows)
	defer at.Free()
	defer lse.Free()
	t := tokenHead{tp: tp, x: x, w: w, xs: x.t, at: at, lse: lse, temperature: temperature}
	t.stretches(func(lo, hi int, logits *tensor.Tensor) {
		g := t.gather(lo, hi, logits)
		g.Out = y.t.Span().Slice(lo, hi)
		tp.be.LogSoftmaxGather(&g)
	})
	if n := tp.record(y); n != nil {
		t.xs, t.at, t.lse = n.save(x.t), n.save(at), n.save(lse)
		n.back = func() { t.backward(y.grad) }
	}
	return y
}

// tokenHead is what both directions read.
type tokenHead struct {
	tp          *Tape
	x           *Value
	w           *Param
	xs, at, lse *tensor.Tensor
	temperature float32
}

// stretches makes logits of stretches of rows, none of which has rows of two samples.
func (t *tokenHead) stretches(f func(lo, hi int, logits *tensor.Tensor)) {
	tp, lo := t.tp, 0
	for _, n := range t.x.samples() {
		for end := lo + n; lo < end; {
			hi := min(lo+tokenRows, end)
			logits := tp.pool.New(kernels.F32, hi-lo, t.w.Shape[0]).Named("logits")
			b, packed := tp.operand(t.w)
			tp.be.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: tp.Math, A: t.xs.Mat().RowRange(lo, hi), B: b, W: packed, C: logits.Mat()})
			f(lo, hi, logits)
			logits.Free()
			lo = hi
		}
	}
}

func (t *tokenHead) gather(lo, hi int, logits *tensor.Tensor) kernels.LogSoftmaxGather {
	return kernels.LogSoftmaxGather{X: logits.Mat(), Index: t.at.Span().Slice(lo, hi), Temperature: t.temperature, LSE: t.lse.Span().Slice(lo, hi)}
}

func (t *tokenHead) backward(dy *tensor.Tensor) {
	tp := t.tp
	dx := tp.needed(t.x)
	var dw kernels.Mat
	if t.w.Trained {
		dw = kernels.NewMat(tp.sum(t.w), t.w.Shape[0], t.w.Shape[1])
	}
	t.stretches(func(lo, hi int, logits *tensor.Tensor) {
		d := tp.pool.New(kernels.F32, logits.Shape()...).Named("gradient of logits")
		defer d.Free()
		tp.be.LogSoftmaxGatherBackward(&kernels.LogSoftmaxGatherBackward{LogSoftmaxGather: t.gather(lo, hi, logits), DOut: dy.Span().Slice(lo, hi), DX: d.Mat()})
		if dx != nil {
			b, packed := tp.operand(t.w)
			tp.be.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: tp.Math, A: d.Mat(), B: b, W: packed, C: dx.Mat().RowRange(lo, hi)})
		}
		if t.w.Trained {
			tp.be.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: tp.Math, A: d.Mat(), B: t.xs.Mat().RowRange(lo, hi), C: dw,
				Segments: []int{hi - lo}, Accumulate: true})
		}
	})
	tp.giveIf(t.x, dx)
}
