// Package vae is the autoencoders between pictures and latents: AutoencoderKL of Stable
// Diffusion and FLUX, and AutoencoderTiny (TAESD), with diffusers' parameter names.
//
// Start with KL; tiny.go has TAESD, tiled.go decodes large latents tile by tile. Pictures are [B, H, W, 3] between -1
// and 1, latents [B, h, w, C], channels last.
package vae

import (
	"github.com/darkroom-rl/darkroom/diffusion/resnet"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of an AutoencoderKL.
type Config struct {
	In            int      `json:"in_channels"`
	Out           int      `json:"out_channels"`
	Latent        int      `json:"latent_channels"`
	Channels      []int    `json:"block_out_channels"`
	Layers        int      `json:"layers_per_block"`
	Groups        int      `json:"norm_num_groups"`
	Attention     bool     `json:"mid_block_add_attention"`
	QuantConv     bool     `json:"use_quant_conv"`
	PostQuantConv bool     `json:"use_post_quant_conv"`
	Scaling       float32  `json:"scaling_factor"`
	Shift         float32  `json:"shift_factor"` // null: 0
	Act           string   `json:"act_fn"`
	Down          []string `json:"down_block_types"`
	Up            []string `json:"up_block_types"`
}

// Factor is how many pixels a side of a latent pixel covers.
func (c Config) Factor() int { return 1 << (len(c.Channels) - 1) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{In: 3, Out: 3, Latent: 4, Channels: []int{64}, Layers: 1, Groups: 32, Attention: true, QuantConv: true, PostQuantConv: true, Scaling: 0.18215, Act: "silu"}
	if err := hub.Config(dir, &c, "AutoencoderKL", "AutoencoderKLFlux2"); err != nil {
		return c, err
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 64)
	l.Int("out_channels", c.Out, 1, 64)
	l.Int("latent_channels", c.Latent, 1, 1024)
	l.Int("layers_per_block", c.Layers, 1, 64)
	l.Int("norm_num_groups", c.Groups, 1, 1024)
	channels(&l, "block_out_channels", c.Channels, c.Groups)
	l.Must(c.Scaling > 0 || c.Scaling < 0, `"scaling_factor" must be a number other than 0`)
	l.Must(c.Act == "silu" || c.Act == "swish", `"act_fn" is %q; "silu" is known`, c.Act)
	for _, t := range append(c.Down, c.Up...) {
		l.Must(t == "DownEncoderBlock2D" || t == "UpDecoderBlock2D", `blocks of type %q are not known`, t)
	}
	return l.Err()
}

func channels(l *hub.Limits, key string, list []int, groups int) {
	l.Must(len(list) >= 1 && len(list) <= 8, `%q lists %d levels; 1 to 8 are possible`, key, len(list))
	for _, n := range list {
		l.Int(key, n, 1, 1<<14)
		l.Must(groups < 1 || n%groups == 0, `%q: %d channels are not a multiple of %d groups`, key, n, groups)
	}
}

// TinyConfig is config.json of an AutoencoderTiny.
type TinyConfig struct {
	In              int   `json:"in_channels"`
	Out             int   `json:"out_channels"`
	Latent          int   `json:"latent_channels"`
	EncoderChannels []int `json:"encoder_block_out_channels"`
	DecoderChannels []int `json:"decoder_block_out_channels"`
	EncoderBlocks   []int `json:"num_encoder_blocks"`
	DecoderBlocks   []int `json:"num_decoder_blocks"`
	Upsampling      int   `json:"upsampling_scaling_factor"`
}

// ReadTinyConfig reads a folder's config.json.
func ReadTinyConfig(dir string) (TinyConfig, error) {
	c := TinyConfig{In: 3, Out: 3, Latent: 4, EncoderChannels: []int{64, 64, 64, 64}, DecoderChannels: []int{64, 64, 64, 64},
		EncoderBlocks: []int{1, 3, 3, 3}, DecoderBlocks: []int{3, 3, 3, 1}, Upsampling: 2}
	if err := hub.Config(dir, &c, "AutoencoderTiny"); err != nil {
		return c, err
	}
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 64)
	l.Int("out_channels", c.Out, 1, 64)
	l.Int("latent_channels", c.Latent, 1, 1024)
	l.Int("upsampling_scaling_factor", c.Upsampling, 1, 8)
	channels(&l, "encoder_block_out_channels", c.EncoderChannels, 1)
	channels(&l, "decoder_block_out_channels", c.DecoderChannels, 1)
	l.Must(len(c.EncoderBlocks) == len(c.EncoderChannels), `"num_encoder_blocks" and "encoder_block_out_channels" have %d and %d levels`, len(c.EncoderBlocks), len(c.EncoderChannels))
	l.Must(len(c.DecoderBlocks) == len(c.DecoderChannels), `"num_decoder_blocks" and "decoder_block_out_channels" have %d and %d levels`, len(c.DecoderBlocks), len(c.DecoderChannels))
	for _, n := range append(append([]int(nil), c.EncoderBlocks...), c.DecoderBlocks...) {
		l.Int("num_encoder_blocks, num_decoder_blocks", n, 0, 64)
	}
	return c, l.Err()
}

// KL is AutoencoderKL (Rombach et al., 2022): levels of residual blocks, one head of
// attention in the middle.
type KL struct {
	Config
	encoder, decoder *half
	quant, postQuant *nn.Conv
	shift            *autograd.Param
}

const eps = 1e-6

// half is the encoder or the decoder: both are in, levels, middle, out; a decoder's middle
// comes first.
type half struct {
	in, out *nn.Conv
	middle  *middle
	levels  []*level
	norm    *nn.GroupNorm
}

type level struct {
	blocks []*resnet.Block
	halve  *nn.Conv    // nil at the last level, and in a decoder
	double *nn.Doubled // nil at the last level, and in an encoder
}

// middle is the coarsest level's blocks, and attention between all its pixels.
type middle struct {
	first, second *resnet.Block
	norm          *nn.GroupNorm
	attention     *nn.Attention // nil: none
}

// Names reads older folders by the names of today.
func Names(src nn.Source) nn.Source {
	return nn.Rename(src, "attentions.0.query.", "attentions.0.to_q.", "attentions.0.key.", "attentions.0.to_k.",
		"attentions.0.value.", "attentions.0.to_v.", "attentions.0.proj_attn.", "attentions.0.to_out.0.")
}

// New asks p for both halves' parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *KL {
	v := &KL{Config: c, encoder: newEncoder(p.Sub("encoder"), c), decoder: newDecoder(p.Sub("decoder"), c)}
	if c.QuantConv {
		v.quant = p.Conv("quant_conv", nn.Square(2*c.Latent, 2*c.Latent, 1, 1, 0), true)
	}
	if c.PostQuantConv {
		v.postQuant = p.Conv("post_quant_conv", nn.Square(c.Latent, c.Latent, 1, 1, 0), true)
	}
	v.shift = p.Constant("the latents' shift", []float32{c.Shift}, 1)
	return v
}

func newEncoder(p *nn.Params, c Config) *half {
	h := &half{in: p.Conv("conv_in", nn.Square(c.In, c.Channels[0], 3, 1, 1), true)}
	in := c.Channels[0]
	for i, out := range c.Channels {
		b := p.At("down_blocks", i)
		l := newLevel(b, in, out, c.Layers, c.Groups)
		if in = out; i < len(c.Channels)-1 {
			// One pixel of padding, on the right and below.
			l.halve = b.Conv("downsamplers.0.conv", kernels.ConvShape{In: out, Out: out, KH: 3, KW: 3, Stride: 2, Bottom: 1, Right: 1}, true)
		}
		h.levels = append(h.levels, l)
	}
	h.finish(p, c, in, 2*c.Latent, in)
	return h
}

func newDecoder(p *nn.Params, c Config) *half {
	in := c.Channels[len(c.Channels)-1]
	deep := in
	h := &half{in: p.Conv("conv_in", nn.Square(c.Latent, in, 3, 1, 1), true)}
	for i := range c.Channels {
		b, out := p.At("up_blocks", i), c.Channels[len(c.Channels)-1-i]
		l := newLevel(b, in, out, c.Layers+1, c.Groups)
		if in = out; i < len(c.Channels)-1 {
			l.double = b.Doubled("upsamplers.0.conv", out, out)
		}
		h.levels = append(h.levels, l)
	}
	h.finish(p, c, in, c.Out, deep)
	return h
}

func newLevel(p *nn.Params, in, out, blocks, groups int) *level {
	l := &level{}
	for i := range blocks {
		l.blocks = append(l.blocks, resnet.New(p.At("resnets", i), in, out, 0, groups, eps))
		in = out
	}
	return l
}

// finish asks for the common parts of both halves: the middle, and the last convolution.
func (h *half) finish(p *nn.Params, c Config, in, out, deep int) {
	m := p.Sub("mid_block")
	h.middle = &middle{first: resnet.New(m.At("resnets", 0), deep, deep, 0, c.Groups, eps), second: resnet.New(m.At("resnets", 1), deep, deep, 0, c.Groups, eps)}
	if c.Attention {
		a := m.At("attentions", 0)
		h.middle.norm = a.GroupNorm("group_norm", deep, c.Groups, eps)
		h.middle.attention = m.Attention("attentions.0", deep, deep, 1, deep, true)
	}
	h.norm = p.GroupNorm("conv_norm_out", in, c.Groups, eps)
	h.out = p.Conv("conv_out", nn.Square(in, out, 3, 1, 1), true)
}

// Encode is the mean and the logarithm of the variance of latents, before scaling.
func (v *KL) Encode(tp *autograd.Tape, pictures *autograd.Value) (mean, logVariance *autograd.Value) {
	x := v.encoder.in.Apply(tp, pictures, nil)
	for _, l := range v.encoder.levels {
		x = l.blocksOf(tp, x)
		if l.halve != nil {
			x = replace(tp, x, l.halve.Apply(tp, x, nil))
		}
	}
	x = v.encoder.middle.apply(tp, x)
	x = v.encoder.last(tp, x)
	if v.quant != nil {
		x = replace(tp, x, v.quant.Apply(tp, x, nil))
	}
	halves := tp.Split(x, 3, v.Latent, v.Latent)
	return halves[0], halves[1]
}

// Scaled is latents as diffusion models have them: (mean - Shift)·Scaling.
func (v *KL) Scaled(tp *autograd.Tape, mean *autograd.Value) *autograd.Value {
	return tp.Scale(tp.AddParam(tp.Scale(mean, -1), v.shift), -v.Scaling)
}

// Decode is the pictures of scaled latents.
func (v *KL) Decode(tp *autograd.Tape, latents *autograd.Value) *autograd.Value {
	x := tp.AddParam(tp.Scale(latents, 1/v.Scaling), v.shift)
	if v.postQuant != nil {
		x = replace(tp, x, v.postQuant.Apply(tp, x, nil))
	}
	x = replace(tp, x, v.decoder.in.Apply(tp, x, nil))
	x = v.decoder.middle.apply(tp, x)
	for _, l := range v.decoder.levels {
		x = l.blocksOf(tp, x)
		if l.double != nil {
			x = replace(tp, x, l.double.Apply(tp, x))
		}
	}
	return v.decoder.last(tp, x)
}

// replace lets x go for y.
func replace(tp *autograd.Tape, x, y *autograd.Value) *autograd.Value {
	tp.Release(x)
	return y
}

// last is the norm, SiLU and the last convolution.
func (h *half) last(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	y := h.norm.Apply(tp, x, kernels.SiLU)
	tp.Release(x)
	return replace(tp, y, h.out.ApplyWide(tp, y))
}

func (l *level) blocksOf(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	for _, b := range l.blocks {
		x = replace(tp, x, inBlock(tp, b, x))
	}
	return x
}

// inBlock is a residual block as a unit of memory.
func inBlock(tp *autograd.Tape, b *resnet.Block, x *autograd.Value) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		return []*autograd.Value{b.Apply(tp, in[0], nil)}
	}, x)[0]
}

func (m *middle) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	x = replace(tp, x, inBlock(tp, m.first, x))
	if m.attention != nil {
		b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		x = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			n := tp.Reshape(m.norm.Apply(tp, in[0], kernels.Identity), b, h*w, c)
			y := m.attention.Apply(tp, n, n, autograd.Attend{}, autograd.With{Residual: tp.Reshape(in[0], b, h*w, c)})
			return []*autograd.Value{tp.Reshape(y, b, h, w, c)}
		}, x)[0]
	}
	return replace(tp, x, inBlock(tp, m.second, x))
}
