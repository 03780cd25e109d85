package vae

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Model is the autoencoder.
type Model struct {
	Config
	encoder, decoder *half
	quant, postQuant *nn.Conv
}

// New asks p for both halves' parameters; p.Check returns their mistakes.
func New(p *nn.Params, c Config) *Model {
	return &Model{Config: c, encoder: newEncoder(p.Sub("encoder"), c), decoder: newDecoder(p.Sub("decoder"), c),
		quant:     p.ConvOfFrame("quant_conv", nn.Square(2*c.Latent, 2*c.Latent, 1, 1, 0)),
		postQuant: p.ConvOfFrame("post_quant_conv", nn.Square(c.Latent, c.Latent, 1, 1, 0))}
}

// Encode is the mean and the logarithm of the variance of a clip's latents, before scaling. The clip is
// [1 + Frames()·k, H, W, Channels()], its numbers from -1 to 1.
func (m *Model) Encode(tp *autograd.Tape, clip *autograd.Value) (mean, logVariance *autograd.Value) {
	t, each := clip.Dim(0), m.Frames()
	if t%each != 1%each || clip.Dim(1)%m.Factor() != 0 || clip.Dim(2)%m.Factor() != 0 {
		panic(fmt.Sprintf("vae: a clip of %v: 1 + %d·k frames whose sides are multiples of %d were expected", clip.Shape(), each, m.Factor()))
	}
	s, x := &stream{tp: tp}, m.fold(tp, clip)
	var out []*autograd.Value
	for at, n := 0, 1; at < t; at, n = at+n, each {
		s.chunk(at == 0)
		out = append(out, m.encoder.apply(s, tp.Part(x, at, at+n)))
	}
	halves := tp.Split(m.quant.Apply(tp, tp.Concat(0, out...), nil), 3, m.Latent, m.Latent)
	return halves[0], halves[1]
}

// Scaled is latents as diffusion models have them: (mean - Mean)/Deviation.
func (m *Model) Scaled(tp *autograd.Tape, mean *autograd.Value) *autograd.Value {
	scale, shift := make([]float32, m.Latent), make([]float32, m.Latent)
	for i, d := range m.Deviation {
		scale[i], shift[i] = 1/d-1, -m.Mean[i]/d
	}
	return m.affine(tp, mean, scale, shift)
}

// Decode is the frames of scaled latents [T, H, W, Latent], about -1 to 1: the caller that makes pictures of them clips
// values beyond. One frame of latents goes through at a time.
func (m *Model) Decode(tp *autograd.Tape, latents *autograd.Value) *autograd.Value {
	scale := make([]float32, m.Latent)
	for i, d := range m.Deviation {
		scale[i] = d - 1
	}
	s, x := &stream{tp: tp}, m.postQuant.Apply(tp, m.affine(tp, latents, scale, m.Mean), nil)
	var out []*autograd.Value
	for at := range latents.Dim(0) {
		s.chunk(at == 0)
		out = append(out, m.decoder.apply(s, tp.Part(x, at, at+1)))
	}
	return m.unfold(tp, tp.Concat(0, out...))
}

// affine is x·(1 + scale) + shift, channel by channel.
func (m *Model) affine(tp *autograd.Tape, x *autograd.Value, scale, shift []float32) *autograd.Value {
	return tp.Modulate(x, tp.Upload("scale of latents", scale, 1, m.Latent), tp.Upload("shift of latents", shift, 1, m.Latent))
}

// fold makes channels of patches: c·Patch² + column·Patch + row.
func (m *Model) fold(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	p := m.Patch
	if p == 1 {
		return x
	}
	t, h, w, c := x.Dim(0), x.Dim(1)/p, x.Dim(2)/p, x.Dim(3)
	return tp.Reshape(tp.Permute(tp.Reshape(x, t*h, p, w, p, c), 0, 2, 4, 3, 1), t, h, w, c*p*p)
}

// unfold makes patches of channels.
func (m *Model) unfold(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	p := m.Patch
	if p == 1 {
		return x
	}
	t, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)/(p*p)
	return tp.Reshape(tp.Permute(tp.Reshape(x, t*h, w, c, p, p), 0, 4, 1, 3, 2), t, h*p, w*p, c)
}

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
