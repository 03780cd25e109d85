package vae

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

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
