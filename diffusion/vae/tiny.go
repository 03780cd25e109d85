package vae

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Tiny is AutoencoderTiny (TAESD; Boer Bohan, 2023): plain blocks of three convolutions. It
// works on pictures between 0 and 1, and bounds latents by 3·tanh(z/3).
type Tiny struct {
	TinyConfig
	encoder, decoder []step
	half             *autograd.Param
	one              *autograd.Param
}

// step is an item of the list that the parameters' names count through.
type step func(tp *autograd.Tape, x *autograd.Value) *autograd.Value

// NewTiny asks p for both halves' parameters; p.Check reports problems with them.
func NewTiny(p *nn.Params, c TinyConfig) *Tiny {
	t := &Tiny{TinyConfig: c, half: p.Constant("1/2", []float32{0.5}, 1), one: p.Constant("-1", []float32{-1}, 1)}
	l := list{p: p.Sub("encoder")}
	for i, n := range c.EncoderChannels {
		if i == 0 {
			l.conv(c.In, n, 1, true)
		} else {
			l.conv(c.EncoderChannels[i-1], n, 2, false)
		}
		l.blocks(c.EncoderBlocks[i], n)
	}
	l.conv(c.EncoderChannels[len(c.EncoderChannels)-1], c.Latent, 1, true)
	t.encoder = l.steps

	l = list{p: p.Sub("decoder")}
	l.conv(c.Latent, c.DecoderChannels[0], 1, true)
	l.add(func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return tp.Unary(kernels.ReLU, x) })
	for i, n := range c.DecoderChannels {
		l.blocks(c.DecoderBlocks[i], n)
		if i == len(c.DecoderChannels)-1 {
			l.conv(n, c.Out, 1, true)
			break
		}
		l.add(func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return tp.Upsample(x, c.Upsampling) })
		l.conv(n, c.DecoderChannels[i+1], 1, false)
	}
	t.decoder = l.steps
	return t
}

// list collects steps under the names layers.0, layers.1, ...
type list struct {
	p     *nn.Params
	steps []step
}

func (l *list) add(s step) { l.steps = append(l.steps, s) }

func (l *list) conv(in, out, stride int, bias bool) {
	c := l.p.Conv(fmt.Sprintf("layers.%d", len(l.steps)), nn.Square(in, out, 3, stride, 1), bias)
	l.add(func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return c.Apply(tp, x, nil) })
}

// blocks adds n blocks relu(x + conv(relu(conv(relu(conv(x)))))).
func (l *list) blocks(n, channels int) {
	for range n {
		p, shape := l.p.At("layers", len(l.steps)), nn.Square(channels, channels, 3, 1, 1)
		a, b, c := p.Conv("conv.0", shape, true), p.Conv("conv.2", shape, true), p.Conv("conv.4", shape, true)
		l.add(func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			h := tp.Unary(kernels.ReLU, a.Apply(tp, x, nil))
			g := tp.Unary(kernels.ReLU, b.Apply(tp, h, nil))
			return tp.Unary(kernels.ReLU, c.Apply(tp, g, x))
		})
	}
}

// Encode is the latents of pictures.
func (t *Tiny) Encode(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	return run(tp, t.encoder, tp.AddParam(tp.Scale(pictures, 0.5), t.half))
}

// Decode is the pictures of latents.
func (t *Tiny) Decode(tp *autograd.Tape, latents *autograd.Value) *autograd.Value {
	x := tp.Scale(tp.Unary(kernels.Tanh, tp.Scale(latents, float32(1)/3)), 3)
	return tp.AddParam(tp.Scale(run(tp, t.decoder, x), 2), t.one)
}

func run(tp *autograd.Tape, steps []step, x *autograd.Value) *autograd.Value {
	for _, s := range steps {
		x = tp.Block(func(in ...*autograd.Value) []*autograd.Value { return []*autograd.Value{s(tp, in[0])} }, x)[0]
	}
	return x
}
