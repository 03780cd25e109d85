package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// A 3x3 convolution of a picture whose pixels were repeated 2x2, without that picture: what
// pixels of the same row and column parity read are the same four pixels of x, so the
// result is four convolutions of x by 2x2, woven together. A weight's nine taps fall
// together into four sums for each parity:
//
//	even: w0 of the pixel before, w1 + w2 of the pixel itself
//	odd:  w0 + w1 of the pixel itself, w2 of the one after
//
// That is 16 products for each pixel of x where there were 36, and no large picture is
// made to be read nine times. The obvious twin is Upsample, then Conv: the same function, but
// the taps' sums are rounded before they are multiplied, so the bits differ.
//
// Invariant (test): values and gradients are the twin's within rounding.

// PhaseShape is the geometry of the 2x2 convolution of rows of parity py and columns of px.
func PhaseShape(s kernels.ConvShape, py, px int) kernels.ConvShape {
	return kernels.ConvShape{In: s.In, Out: s.Out, KH: 2, KW: 2, Stride: 1, Top: 1 - py, Left: 1 - px, Bottom: py, Right: px}
}

// DoubledConv is the convolution of x [N, H, W, In], doubled, by the weight that phases
// [py·2 + px] were made of.
func (tp *Tape) DoubledConv(x *Value, phases [4]*Param, bias *Param) *Value {
	s := phases[0].Conv
	if x.t.Rank() != 4 || x.Dim(3) != s.In {
		panic(fmt.Sprintf("autograd: DoubledConv of %v with %s %v", x.t, phases[0].Name, phases[0].Shape))
	}
	n, h, w := x.Dim(0), x.Dim(1), x.Dim(2)
	y := tp.result(phases[0].Name, tp.pool.New(tp.DType, n, 2*h, 2*w, s.Out), x)
	if bias.wantsGrad() {
		panic("autograd: DoubledConv: " + bias.Name + " is trained; use Upsample and Conv")
	}
	part := tp.pool.New(tp.DType, n, h, w, s.Out)
	defer part.Free()
	of := func(i int) kernels.Conv {
		weight, packed := tp.operand(phases[i])
		return kernels.Conv{Shape: phases[i].Conv, Math: tp.Math, N: n, H: h, W: w, Weight: weight.Span, Packed: packed}
	}
	for i := range phases {
		c := of(i)
		c.X, c.Y, c.Bias = x.t.Span(), part.Span(), bias.span()
		tp.be.Conv(&c)
		tp.weave(y.t, part, i, false)
	}
	if node := tp.record(y); node != nil {
		node.back = func() {
			dy := tp.pool.New(y.t.DType(), n, h, w, s.Out)
			defer dy.Free()
			for i := range phases {
				tp.weave(y.grad, dy, i, true)
				dx := tp.likeGrad(x)
				tp.be.ConvBackward(&kernels.ConvBackward{Conv: of(i), DY: dy.Span(), DX: dx.Span()})
				tp.give(x, dx)
			}
		}
	}
	return y
}

// weave copies the pixels of one parity between a picture and a quarter of it.
func (tp *Tape) weave(whole, part *tensor.Tensor, phase int, back bool) {
	n, h, w, c := part.Dim(0), part.Dim(1), part.Dim(2), part.Dim(3)
	from := (phase/2*2*w + phase%2) * c
	k := kernels.Copy{Src: part.Span(), Dst: whole.Span().Slice(from, whole.Len()), Shape: [5]int{1, n, h, w, c},
		SrcStride: [5]int{0, h * w * c, w * c, c, 1}, DstStride: [5]int{0, 4 * h * w * c, 4 * w * c, 2 * c, 1}}
	if back {
		k.Src, k.Dst, k.SrcStride, k.DstStride = k.Dst, k.Src, k.DstStride, k.SrcStride
	}
	tp.be.Copy(&k)
}
