package unet

import (
	"github.com/darkroom-rl/darkroom/diffusion/resnet"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A level is residual blocks, each followed by a transformer where the level attends to
// text, and a convolution that halves or doubles the picture. On the way up every block
// reads, beside its input, what the way down left on the stack.
type level struct {
	blocks       []*resnet.Block
	transformers []*transformer // none where the level does not attend
	resize       *nn.Conv       // nil at the last level
}

func newDown(p *nn.Params, c Config, i int) *level {
	in, out := c.Channels[max(i-1, 0)], c.Channels[i]
	l := &level{}
	for j := range c.Layers {
		l.blocks = append(l.blocks, resnet.New(p.At("resnets", j), in, out, c.TimeWidth(), c.Groups, c.Eps))
		l.attend(p, c, c.Down[i] == cross, i, j)
		in = out
	}
	if i < len(c.Channels)-1 {
		l.resize = p.Conv("downsamplers.0.conv", nn.Square(out, out, 3, 2, 1), true)
	}
	return l
}

// newUp is the level that stands across from level i of the way down.
func newUp(p *nn.Params, c Config, i int) *level {
	last := len(c.Channels) - 1
	below, out, skip := c.Channels[min(i+1, last)], c.Channels[i], c.Channels[max(i-1, 0)]
	l := &level{}
	for j := range c.Layers + 1 {
		in, beside := out, out
		if j == 0 {
			in = below
		}
		if j == c.Layers {
			beside = skip
		}
		l.blocks = append(l.blocks, resnet.New(p.At("resnets", j), in+beside, out, c.TimeWidth(), c.Groups, c.Eps))
		l.attend(p, c, c.Up[last-i] == crossUp, i, j)
	}
	if i > 0 {
		l.resize = resnet.Up(p, out)
	}
	return l
}

func (l *level) attend(p *nn.Params, c Config, cross bool, i, j int) {
	if cross {
		l.transformers = append(l.transformers, newTransformer(p.At("attentions", j), c, c.Channels[i], c.Heads.at(i), c.Depths.at(i)))
	}
}

// block is block j and its transformer.
func (l *level) block(tp *autograd.Tape, j int, x, time, text *autograd.Value) *autograd.Value {
	x = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		return []*autograd.Value{l.blocks[j].Apply(tp, in[0], in[1])}
	}, x, time)[0]
	if l.transformers != nil {
		x = l.transformers[j].apply(tp, x, text)
	}
	return x
}

// down computes the level, and leaves what the way up reads on the stack.
func (l *level) down(tp *autograd.Tape, x, time, text *autograd.Value, stack *[]*autograd.Value) *autograd.Value {
	for j := range l.blocks {
		x = l.block(tp, j, x, time, text)
		*stack = append(*stack, x)
	}
	if l.resize != nil {
		x = l.resize.Apply(tp, x, nil)
		*stack = append(*stack, x)
	}
	return x
}

// ascend computes a level of the way up.
func (l *level) ascend(tp *autograd.Tape, x, time, text *autograd.Value, stack *[]*autograd.Value) *autograd.Value {
	for j := range l.blocks {
		top := len(*stack) - 1
		beside := tp.Concat(3, x, (*stack)[top])
		tp.Release(x, (*stack)[top])
		*stack = (*stack)[:top]
		x = l.block(tp, j, beside, time, text)
		tp.Release(beside)
	}
	if l.resize != nil {
		y := resnet.Double(tp, l.resize, x)
		tp.Release(x)
		x = y
	}
	return x
}
