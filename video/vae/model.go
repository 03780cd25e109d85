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
