package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
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

// A convolution over time and space: frames x [F, H, W, In] by a weight [KT, Out, KH, KW, In],
//
//	y[f] = bias + residual[f] + sum over t of conv2d(x[f·stride + t], w[t])
//
// made of convolutions of pictures: one for each of the kernel's frames, the oldest first, each
// over all frames at once, with the sum so far as its residual. So it has the speed of those on
// every backend, and no frame is copied. Sums are fp32 until the last.
//
// Nothing is padded in time: who wants zeros, or frames of an earlier chunk, puts them before x.
// A frame's bits depend on the KT frames that it reads and on nothing else, so a clip in chunks has
// the bits of the whole one. A weight's gradient adds up frame by frame.
//
// Invariants (tests): values are those of the naive sum in float64, gradients those of finite
// differences; chunks have the bits of the whole.

// NewPackedFrames is a frozen weight over time that exists only in packed form.
func NewPackedFrames(name string, shape []int, pool *tensor.Pool, taps []*kernels.Packed) *Param {
	p := &Param{Name: name, Shape: shape, pool: pool, Conv: taps[0].Conv}
	p.taps[taps[0].Math] = taps
	return p
}

// tap is the weight of one frame of the kernel.
func (p *Param) tap(m kernels.Math, i int) (kernels.Span, *kernels.Packed) {
	if p.taps[m] != nil {
		return kernels.Span{}, p.taps[m][i]
	}
	if p.Value == nil {
		panic(fmt.Sprintf("autograd: %s was packed for other arithmetic than %s", p.Name, m))
	}
	each := p.Value.Len() / p.Shape[0]
	part := func(i int) kernels.Span { return p.Value.Span().Slice(i*each, (i+1)*each) }
	if m == kernels.MathF32 && p.Value.DType() == kernels.F32 {
		return part(i), nil
	}
	for t := range p.Shape[0] {
		p.taps[m] = append(p.taps[m], p.pool.PackConv(part(t), p.Conv, m))
	}
	return kernels.Span{}, p.taps[m][i]
}

// frameConv is what both directions read.
type frameConv struct {
	tp             *Tape
	w              *Param
	stride, frames int // frames of the result
	h, wide        int // of x
	in, out        int // numbers of a frame
}

// ConvFrames is the convolution of frames x [F, H, W, In]; its result has (F - KT)/stride + 1.
func (tp *Tape) ConvFrames(x *Value, w *Param, stride int, o ConvWith) *Value {
	s := w.Conv
	if x.t.Rank() != 4 || x.Dim(3) != s.In || len(w.Shape) != 5 || x.Dim(0) < w.Shape[0] || stride < 1 {
		panic(fmt.Sprintf("autograd: ConvFrames of %v with %s %v", x.t, w.Name, w.Shape))
	}
	c := frameConv{tp: tp, w: w, stride: stride, frames: (x.Dim(0)-w.Shape[0])/stride + 1, h: x.Dim(1), wide: x.Dim(2)}
	oh, ow := s.OutSize(c.h, c.wide)
	c.in, c.out = c.h*c.wide*s.In, oh*ow*s.Out
	y := tp.result(w.Name, tp.pool.New(tp.outType(o.Wide), c.frames, oh, ow, s.Out), x, o.Residual).needsParam(w, o.Bias)
	y.batch = 0
	c.forward(x.t, y.t, o)
	n := tp.record(y)
	if n == nil {
		return y
	}
	xs := x.t
	if w.Trained {
		xs = n.save(x.t)
	}
	n.back = func() {
		tp.giveMaybe(o.Residual, y.grad)
		c.backward(x, xs, y.grad)
		if o.Bias.wantsGrad() {
			tp.be.SumRows(&kernels.SumRows{X: y.grad.Mat(), Segments: y.samples(), Out: tp.sum(o.Bias), Accumulate: true})
		}
	}
	return y
}

// of is the convolution by one frame of the kernel, of n of the result's frames from f on.
func (c *frameConv) of(tap, f, n int) (op kernels.Conv, from int) {
	weight, packed := c.w.tap(c.tp.Math, tap)
	if packed != nil {
		c.tp.keepOne(c.w)
	}
	op = kernels.Conv{Shape: c.w.Conv, Math: c.tp.Math, N: n, H: c.h, W: c.wide, Weight: weight, Packed: packed}
	return op, (f*c.stride + tap) * c.in
}

// runs are stretches of the result's frames whose operands lie beside each other.
func (c *frameConv) runs(do func(f, n int)) {
	if c.stride == 1 {
		do(0, c.frames)
		return
	}
	for f := range c.frames {
		do(f, 1)
	}
}

func (c *frameConv) forward(x, y *tensor.Tensor, o ConvWith) {
	sum := y
	if y.DType() != kernels.F32 && c.w.Shape[0] > 1 {
		sum = c.tp.pool.New(kernels.F32, y.Shape()...).Named("sum of " + c.w.Name)
		defer sum.Free()
	}
	last := c.w.Shape[0] - 1
	c.runs(func(f, n int) {
		part := func(t *tensor.Tensor) kernels.Span { return t.Span().Slice(f*c.out, (f+n)*c.out) }
		for tap := range last + 1 {
			op, from := c.of(tap, f, n)
			op.X, op.Y = x.Span().Slice(from, from+n*c.in), part(sum)
			if tap == last {
				op.Y, op.Bias = part(y), o.Bias.span()
			}
			switch {
			case tap > 0:
				op.Residual = part(sum)
			case o.Residual != nil:
				op.Residual = part(o.Residual.t)
			}
			c.tp.be.Conv(&op)
		}
	})
}

// backward adds up what each frame of the kernel says of x, and of itself.
func (c *frameConv) backward(x *Value, xs, dy *tensor.Tensor) {
	tp, each := c.tp, 0
	dx := tp.needed(x)
	var sum, part *tensor.Tensor
	if dx != nil {
		sum = dx
		if dx.DType() != kernels.F32 {
			sum = tp.pool.New(kernels.F32, dx.Shape()...).Named("sum of " + dx.Name())
			defer sum.Free()
		}
		tp.be.Fill(sum.Span(), 0)
		part = tp.pool.New(kernels.F32, c.frames*c.in).Named("a part of " + dx.Name())
		defer part.Free()
	}
	var dw kernels.Span
	if c.w.Trained {
		dw = tp.sum(c.w)
		each = dw.Len / c.w.Shape[0]
	}
	for tap := range c.w.Shape[0] {
		c.runs(func(f, n int) {
			op, from := c.of(tap, f, n)
			b := kernels.ConvBackward{Conv: op, DY: dy.Span().Slice(f*c.out, (f+n)*c.out)}
			if c.w.Trained {
				b.X, b.DWeight = xs.Span().Slice(from, from+n*c.in), dw.Slice(tap*each, (tap+1)*each)
			}
			if dx != nil {
				b.DX = part.Span().Slice(0, n*c.in)
			}
			tp.be.ConvBackward(&b)
			if dx != nil {
				to := sum.Span().Slice(from, from+n*c.in)
				tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: to, Y: b.DX, Z: to})
			}
		})
	}
	if dx != nil && sum != dx {
		tp.copyRows(dx.Mat(), sum.Mat())
	}
	tp.giveIf(x, dx)
}

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
