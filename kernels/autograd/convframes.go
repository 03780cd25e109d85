package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

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
		p.taps[m] = append(p.taps[m], p.pool.Backend().PackConv(part(t), p.Conv, m))
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
		c.tp.borrow(c.w)
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
