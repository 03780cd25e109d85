package vae

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// half is the encoder or the decoder: in, levels, middle, out; a decoder's middle comes first.
type half struct {
	in, out causal
	middle  *middle
	levels  []*level
	norm    *nn.Norm
	decodes bool
}

// level is blocks and a change of size. Wan 2.2 has a shortcut around both.
type level struct {
	blocks []*block
	halve  *halving  // nil: a decoder's, or the last
	double *doubling // nil: an encoder's, or the last
	around *shortcut // nil: none
}

func newEncoder(p *nn.Params, c Config) *half {
	width, last := c.Base, len(c.Times)-1
	h := &half{in: newCausal(p, "conv_in", c.In, width)}
	flat := 0 // Wan 2.1 counts blocks and halvings through all levels
	for i, times := range c.Times {
		l, in, at := &level{}, width, p.At("down_blocks", i)
		width = times * c.Base
		for j := range c.Blocks {
			from := at.At("resnets", j)
			if !c.Shortcuts {
				from = p.At("down_blocks", flat)
			}
			l.blocks = append(l.blocks, newBlock(from, in, width))
			in, flat = width, flat+1
		}
		time := i < last && c.Halves[i]
		if i < last {
			from := at.Sub("downsampler")
			if !c.Shortcuts {
				from = p.At("down_blocks", flat)
			}
			l.halve, flat = newHalving(from, width, time), flat+1
		}
		if c.Shortcuts {
			l.around = newMeans(p, fmt.Sprintf("encoder level %d", i), l.blocks[0].conv1.W.Conv.In, width, 1+count(time), 1+count(i < last))
		}
		h.levels = append(h.levels, l)
	}
	h.finish(p, width, width, 2*c.Latent)
	return h
}

func newDecoder(p *nn.Params, c Config) *half {
	last := len(c.Times) - 1
	width := c.Times[last] * c.DecoderBase
	h := &half{in: newCausal(p, "conv_in", c.Latent, width), decodes: true}
	deep := width
	for i := range c.Times {
		l, in, at := &level{}, width, p.At("up_blocks", i)
		if i > 0 && !c.Shortcuts {
			in /= 2 // the doubling before did that
		}
		from := in
		width = c.Times[last-i] * c.DecoderBase
		for j := range c.Blocks + 1 {
			l.blocks = append(l.blocks, newBlock(at.At("resnets", j), in, width))
			in = width
		}
		if i < last {
			time := c.Halves[last-1-i]
			if c.Shortcuts {
				l.double = newDoubling(at.Sub("upsampler"), width, width, time)
				l.around = newRepeats(p, fmt.Sprintf("decoder level %d", i), from, width, 1+count(time), 2)
			} else {
				l.double = newDoubling(at.Sub("upsamplers.0"), width, width/2, time)
			}
		}
		h.levels = append(h.levels, l)
	}
	h.finish(p, deep, width, c.Out)
	return h
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// finish adds the parameters of both halves.
func (h *half) finish(p *nn.Params, deep, in, out int) {
	h.middle = newMiddle(p.Sub("mid_block"), deep)
	h.norm = p.RMSNormAs("norm_out.gamma", eps, in, 1, 1, 1)
	h.out = newCausal(p, "conv_out", in, out)
}

// apply takes a chunk through.
func (h *half) apply(s *stream, x *autograd.Value) *autograd.Value {
	x = h.in.inStream(s, x)
	if h.decodes {
		x = h.middle.apply(s, x)
	}
	for _, l := range h.levels {
		x = l.apply(s, x)
	}
	if !h.decodes {
		x = h.middle.apply(s, x)
	}
	before := s.before(2, x.Dim(1), x.Dim(2), x.Dim(3))
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		long := s.tp.Concat(0, in[1], active(s.tp, h.norm, in[0]))
		return []*autograd.Value{h.out.ApplyWide(s.tp, long), s.tp.Part(long, long.Dim(0)-2, long.Dim(0))}
	}, x, before)
}

func (l *level) apply(s *stream, x *autograd.Value) *autograd.Value {
	var around *autograd.Value
	if first := s.first; l.around != nil {
		around = s.tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			if l.double != nil {
				return []*autograd.Value{l.around.up(s.tp, in[0], first)}
			}
			return []*autograd.Value{l.around.down(s.tp, in[0])}
		}, x)[0]
	}
	for _, b := range l.blocks {
		x = b.apply(s, x)
	}
	switch {
	case l.halve != nil:
		x = l.halve.apply(s, x)
	case l.double != nil:
		x = l.double.apply(s, x)
	}
	if around == nil {
		return x
	}
	y := s.tp.Add(x, around)
	s.tp.Release(x, around)
	return y
}
