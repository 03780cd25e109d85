package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Conv: y = x * w + bias + residual over NHWC pictures. An activation after it is an
// operation of its own: backward would need what comes before it.

// ConvWith is the epilogue of a convolution. Everything is optional.
type ConvWith struct {
	Bias     *Param
	Residual *Value
	Wide     bool // the result is F32, whatever the type of activations
}

// Conv is the convolution of x [N, H, W, In] with a weight whose geometry is w.Conv.
func (tp *Tape) Conv(x *Value, w *Param, o ConvWith) *Value {
	s := w.Conv
	if x.t.Rank() != 4 || x.Dim(3) != s.In || s.KH == 0 {
		panic(fmt.Sprintf("autograd: Conv of %v with %s %v", x.t, w.Name, w.Shape))
	}
	h, wide := s.OutSize(x.Dim(1), x.Dim(2))
	y := tp.result(w.Name, tp.pool.New(tp.outType(o.Wide), x.Dim(0), h, wide, s.Out), x, o.Residual).needsParam(w, o.Bias)
	weight, packed := tp.operand(w)
	c := kernels.Conv{Shape: s, Math: tp.Math, X: x.t.Span(), Y: y.t.Span(), N: x.Dim(0), H: x.Dim(1), W: x.Dim(2),
		Weight: weight.Span, Packed: packed, Bias: o.Bias.span()}
	if o.Residual != nil {
		c.Residual = o.Residual.t.Span()
	}
	tp.be.Conv(&c)
	n := tp.record(y)
	if n == nil {
		return y
	}
	if w.Trained {
		n.save(x.t)
	} else {
		c.X = kernels.Span{} // not read
	}
	n.back = func() {
		tp.giveMaybe(o.Residual, y.grad)
		dx := tp.needed(x)
		b := kernels.ConvBackward{Conv: c, DY: y.grad.Span(), DX: spanOf(dx), DWeight: tp.sumIf(w)}
		b.Residual = kernels.Span{}
		switch {
		case w.Trained:
			b.DBias = tp.sumIf(o.Bias)
		case o.Bias.wantsGrad(): // the same sums, which need no x
			tp.be.SumRows(&kernels.SumRows{X: y.grad.Mat(), Segments: y.samples(), Out: tp.sum(o.Bias), Accumulate: true})
		}
		weight, packed := tp.operand(w)
		b.Weight, b.Packed = weight.Span, packed
		tp.be.ConvBackward(&b)
		tp.giveIf(x, dx)
	}
	return y
}

// Upsample repeats each pixel of x [N, H, W, C] factor x factor times.
func (tp *Tape) Upsample(x *Value, factor int) *Value {
	n, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	y := tp.result("upsample", tp.pool.New(x.t.DType(), n, h*factor, w*factor, c), x)
	tp.be.Upsample(&kernels.Upsample{X: x.t.Span(), Y: y.t.Span(), N: n, H: h, W: w, C: c, Factor: factor})
	if node := tp.record(y); node != nil {
		node.back = func() {
			dx := tp.likeGrad(x)
			tp.be.UpsampleBackward(&kernels.UpsampleBackward{DY: y.grad.Span(), DX: dx.Span(), N: n, H: h, W: w, C: c, Factor: factor})
			tp.give(x, dx)
		}
	}
	return y
}
