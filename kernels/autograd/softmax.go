package autograd

import "github.com/darkroom-rl/darkroom/kernels"

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
