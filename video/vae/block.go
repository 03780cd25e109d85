package vae

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A convolution that is causal in time reads a frame and the two before it. Clips go through in chunks:
// the first frame alone, then the frames of one frame of latents at a time. Each layer keeps the last
// frames that it read, and the next chunk goes on after them; before the first there are zeros. So
// memory is that of a chunk, and a frame's bits are those of a clip that goes through whole.
//
// Kept frames are values on the tape: gradients go back through all chunks.

// stream is a clip on its way through a half.
type stream struct {
	tp    *autograd.Tape
	first bool              // the chunk is the clip's first frame
	kept  []*autograd.Value // by layer, in the order that they run in
	at    int
}

// chunk begins another chunk.
func (s *stream) chunk(first bool) { s.first, s.at = first, 0 }

// before returns the frames that the current layer kept: n frames; zeros before the first chunk.
func (s *stream) before(n, h, w, c int) *autograd.Value {
	if s.at == len(s.kept) {
		zeros := s.tp.Pool().Zeros(s.tp.DType, n, h, w, c).Named("frames before a clip")
		defer zeros.Free()
		s.kept = append(s.kept, s.tp.Input(zeros))
	}
	s.at++
	return s.kept[s.at-1]
}

// keep stores the frames for the next chunk, of the layer that called before i calls ago.
func (s *stream) keep(i int, x *autograd.Value) {
	old := &s.kept[s.at-1-i]
	if *old != x {
		s.tp.Release(*old)
		*old = x
	}
}

// inBlock runs layers as a unit of memory: they take x and their kept frames, and return the result and the frames to
// keep.
func (s *stream) inBlock(f func(in ...*autograd.Value) []*autograd.Value, in ...*autograd.Value) *autograd.Value {
	out := s.tp.Block(f, in...)
	for i, kept := range out[1:] {
		s.keep(len(out)-2-i, kept)
	}
	s.tp.Release(in[0])
	return out[0]
}

// causal is a convolution over three frames.
type causal struct{ *nn.FrameConv }

func newCausal(p *nn.Params, name string, in, out int) causal {
	return causal{p.FrameConv(name, nn.Square(in, out, 3, 1, 1), 3, 1)}
}

// apply convolves x, which follows the two frames before; it also returns the last two.
func (c causal) apply(tp *autograd.Tape, x, before, residual *autograd.Value) (y, last *autograd.Value) {
	long := tp.Concat(0, before, x)
	y = c.FrameConv.Apply(tp, long, residual)
	last = tp.Part(long, long.Dim(0)-2, long.Dim(0))
	tp.Release(long)
	return y, last
}

// inStream is apply of a layer that is a unit of memory by itself.
func (c causal) inStream(s *stream, x *autograd.Value) *autograd.Value {
	before := s.before(2, x.Dim(1), x.Dim(2), x.Dim(3))
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y, last := c.apply(s.tp, in[0], in[1], nil)
		return []*autograd.Value{y, last}
	}, x, before)
}

// eps keeps a pixel of zeros at zero: upstream divides by max(|x|, 1e-12).
const eps = 1e-24

// block is shortcut(x) + conv(silu(norm(conv(silu(norm(x)))))); norms are RMS norms over channels.
type block struct {
	norm1, norm2 *nn.Norm
	conv1, conv2 causal
	shortcut     *nn.Conv // nil: x itself
}

func newBlock(p *nn.Params, in, out int) *block {
	b := &block{norm1: p.RMSNormAs("norm1.gamma", eps, in, 1, 1, 1), norm2: p.RMSNormAs("norm2.gamma", eps, out, 1, 1, 1),
		conv1: newCausal(p, "conv1", in, out), conv2: newCausal(p, "conv2", out, out)}
	if in != out {
		b.shortcut = p.ConvOfFrame("conv_shortcut", nn.Square(in, out, 1, 1, 0))
	}
	return b
}

func (b *block) apply(s *stream, x *autograd.Value) *autograd.Value {
	h, w := x.Dim(1), x.Dim(2)
	first, second := s.before(2, h, w, b.conv1.W.Conv.In), s.before(2, h, w, b.conv2.W.Conv.In)
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		direct := in[0]
		if b.shortcut != nil {
			direct = b.shortcut.Apply(s.tp, direct, nil)
		}
		a := active(s.tp, b.norm1, in[0])
		y, last1 := b.conv1.apply(s.tp, a, in[1], nil)
		s.tp.Release(a)
		a = active(s.tp, b.norm2, y)
		s.tp.Release(y)
		y, last2 := b.conv2.apply(s.tp, a, in[2], direct)
		return []*autograd.Value{y, last1, last2}
	}, x, first, second)
}

// active is silu(norm(x)).
func active(tp *autograd.Tape, norm *nn.Norm, x *autograd.Value) *autograd.Value {
	y := norm.Apply(tp, x)
	z := tp.Unary(kernels.SiLU, y)
	tp.Release(y)
	return z
}

// attention is between the pixels of each frame alone, of one head.
type attention struct {
	norm     *nn.Norm
	qkv, out *nn.Linear
	width    int
}

func newAttention(p *nn.Params, width int) *attention {
	return &attention{norm: p.RMSNormAs("norm.gamma", eps, width, 1, 1), qkv: p.Patches("to_qkv", 3*width, true, width, 1, 1),
		out: p.Patches("proj", width, true, width, 1, 1), width: width}
}

func (a *attention) apply(s *stream, x *autograd.Value) *autograd.Value {
	t, h, w := x.Dim(0), x.Dim(1), x.Dim(2)
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		tp := s.tp
		normed := a.norm.Apply(tp, in[0])
		parts := tp.Chunk(a.qkv.Apply(tp, tp.Reshape(normed, t, h*w, a.width), autograd.With{}), 3)
		o := tp.Attention(parts[0], parts[1], parts[2], autograd.Attend{Heads: 1})
		y := a.out.Apply(tp, o, autograd.With{Residual: tp.Reshape(in[0], t, h*w, a.width)})
		return []*autograd.Value{tp.Reshape(y, t, h, w, a.width)}
	}, x)
}

// middle is a block, attention, and a block.
type middle struct {
	first, second *block
	attention     *attention
}

func newMiddle(p *nn.Params, width int) *middle {
	return &middle{newBlock(p.At("resnets", 0), width, width), newBlock(p.At("resnets", 1), width, width), newAttention(p.At("attentions", 0), width)}
}

func (m *middle) apply(s *stream, x *autograd.Value) *autograd.Value {
	return m.second.apply(s, m.attention.apply(s, m.first.apply(s, x)))
}

// Between levels sides are halved or doubled, and time with them where the level says so. A clip's
// first frame stays one frame.

// halving is a convolution of every other pixel, then one of every other frame and the two around it.
type halving struct {
	conv *nn.Conv
	time *nn.FrameConv // nil: time stays
}

func newHalving(p *nn.Params, width int, time bool) *halving {
	// One pixel of padding, on the right and below.
	shape := kernels.ConvShape{In: width, Out: width, KH: 3, KW: 3, Stride: 2, Bottom: 1, Right: 1}
	h := &halving{conv: p.Conv("resample.1", shape, true)}
	if time {
		h.time = p.FrameConv("time_conv", nn.Square(width, width, 1, 1, 0), 3, 2)
	}
	return h
}

func (d *halving) apply(s *stream, x *autograd.Value) *autograd.Value {
	tp, in := s.tp, []*autograd.Value{x}
	if d.time != nil {
		in = append(in, s.before(1, (x.Dim(1)+1)/2, (x.Dim(2)+1)/2, x.Dim(3)))
	}
	first := s.first
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y := d.conv.Apply(tp, in[0], nil)
		if d.time == nil {
			return []*autograd.Value{y}
		}
		last := tp.Part(y, y.Dim(0)-1, y.Dim(0))
		if first {
			return []*autograd.Value{y, last}
		}
		return []*autograd.Value{d.time.Apply(tp, tp.Concat(0, in[1], y), nil), last}
	}, in...)
}

// doubling is a convolution that makes two frames of each, then one of the frames doubled. The first
// frame is passed by, and those after it are convolved as if it were not there.
type doubling struct {
	time *nn.FrameConv // nil: time stays
	conv *nn.Doubled
}

func newDoubling(p *nn.Params, in, out int, time bool) *doubling {
	d := &doubling{conv: p.Doubled("resample.1", in, out)}
	if time {
		d.time = p.FrameConv("time_conv", nn.Square(in, 2*in, 1, 1, 0), 3, 1)
	}
	return d
}

func (d *doubling) apply(s *stream, x *autograd.Value) *autograd.Value {
	tp, in := s.tp, []*autograd.Value{x}
	t, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if d.time != nil {
		in = append(in, s.before(2, h, w, c))
	}
	if d.time == nil || s.first {
		return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
			return append([]*autograd.Value{d.conv.Apply(tp, in[0])}, in[1:]...)
		}, in...)
	}
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y, last := causal{d.time}.apply(tp, in[0], in[1], nil)
		pairs := tp.Permute(tp.Reshape(y, t, h*w, 2, c), 0, 2, 1, 3)
		return []*autograd.Value{d.conv.Apply(tp, tp.Reshape(pairs, 2*t, h, w, c)), last}
	}, in...)
}

// Shortcuts of Wan 2.2's levels go around all of a level, without weights. A box of frames x side x
// side pixels becomes channels, of which the shortcut takes means of groups (on the way down), or
// channels become such a box, repeated as often as is needed (on the way up). Channels in a box are
// numbered c·box + (frame·side + row)·side + column.

// shortcut is a level's change of size and channels.
type shortcut struct {
	in, out, frames, side int
	w                     *autograd.Param // of the means, or the choice of channels
}

func (c shortcut) box() int { return c.frames * c.side * c.side }

// newMeans is the way down: a mean of in·box/out neighbours.
func newMeans(p *nn.Params, name string, in, out, frames, side int) *shortcut {
	c := &shortcut{in: in, out: out, frames: frames, side: side}
	group := in * c.box() / out
	share := make([]float32, group)
	for i := range share {
		share[i] = 1 / float32(group)
	}
	c.w = p.Constant(name+": the shares of a mean", share, 1, group)
	return c
}

// down is x [T, H, W, in], made smaller. Zero frames come first where there are too few.
func (c *shortcut) down(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if missing := -x.Dim(0) % c.frames; missing != 0 {
		zeros := tp.Pool().Zeros(x.Tensor().DType(), c.frames+missing, x.Dim(1), x.Dim(2), c.in)
		defer zeros.Free()
		x = tp.Concat(0, tp.Input(zeros), x)
	}
	t, h, w := x.Dim(0)/c.frames, x.Dim(1)/c.side, x.Dim(2)/c.side
	y := tp.Permute(tp.Reshape(x, t*c.frames*h, c.side, w, c.side, c.in), 0, 2, 4, 1, 3)
	y = tp.Permute(tp.Reshape(y, t, c.frames, h*w*c.in, c.side*c.side), 0, 2, 1, 3)
	means := tp.Linear(tp.Reshape(y, t*h*w*c.out, c.w.Shape[1]), c.w, autograd.With{})
	return tp.Reshape(means, t, h, w, c.out)
}

// newRepeats is the way up: place b of a box reads channel (o·box + b)·in/(out·box) for channel o.
func newRepeats(p *nn.Params, name string, in, out, frames, side int) *shortcut {
	c := &shortcut{in: in, out: out, frames: frames, side: side}
	choice := make([]float32, c.box()*out*in)
	for b := range c.box() {
		for o := range out {
			choice[(b*out+o)*in+(o*c.box()+b)*in/(out*c.box())] = 1
		}
	}
	c.w = p.Constant(name+": the channel of each place", choice, c.box()*out, in)
	return c
}

// up is x [T, H, W, in], made larger; of a clip's first frame one frame is kept, the last.
func (c *shortcut) up(tp *autograd.Tape, x *autograd.Value, first bool) *autograd.Value {
	t, h, w := x.Dim(0), x.Dim(1), x.Dim(2)
	y := tp.Linear(x, c.w, autograd.With{})
	y = tp.Permute(tp.Reshape(y, t, h*w, c.frames, c.side*c.side*c.out), 0, 2, 1, 3)
	y = tp.Permute(tp.Reshape(y, t*c.frames*h, w, c.side, c.side*c.out), 0, 2, 1, 3)
	y = tp.Reshape(y, t*c.frames, h*c.side, w*c.side, c.out)
	if first {
		y = tp.Part(y, c.frames-1, y.Dim(0))
	}
	return y
}
