// Package flux is the transformer of FLUX.1 (Black Forest Labs, 2024), with diffusers'
// parameter names: layers of two streams (package mmdit's), then layers of one.
//
// Start with Model.Forward. Latents are packed: a token is a 2 x 2 patch of the VAE's pictures. Time and guidance are
// sigma and the scale as they are; the network multiplies by 1000.
package flux

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a FluxTransformer2DModel.
type Config struct {
	PatchSize int   `json:"patch_size"`
	In        int   `json:"in_channels"`
	Out       int   `json:"out_channels"` // 0: as In
	Layers    int   `json:"num_layers"`
	Single    int   `json:"num_single_layers"`
	Heads     int   `json:"num_attention_heads"`
	HeadDim   int   `json:"attention_head_dim"`
	Context   int   `json:"joint_attention_dim"`
	Pooled    int   `json:"pooled_projection_dim"`
	Guidance  bool  `json:"guidance_embeds"` // the guidance scale is an input (FLUX.1-dev)
	Axes      []int `json:"axes_dims_rope"`  // of a head: index, row, column
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 1, In: 64, Layers: 19, Single: 38, Heads: 24, HeadDim: 128, Context: 4096, Pooled: 768, Axes: []int{16, 56, 56}}
	if err := hub.Config(dir, &c, "FluxTransformer2DModel"); err != nil {
		return c, err
	}
	if c.Out == 0 {
		c.Out = c.In
	}
	return c, c.check()
}

func (c Config) check() error {
	var l hub.Limits
	l.Int("patch_size", c.PatchSize, 1, 16)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 0, 512)
	l.Int("num_single_layers", c.Single, 0, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Int("pooled_projection_dim", c.Pooled, 1, 1<<16)
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	return l.Err()
}

// Model is the network: packed latents and text in, a velocity for every token out.
type Model struct {
	Config
	in, context               *nn.Linear
	timeMLP, guidance, pooled *nn.MLP // guidance is nil where it is not an input
	blocks                    []*mmdit.Block
	singles                   []*single
	modulateOut, out          *nn.Linear
	norm                      *nn.Norm
}

// timeDim is the length of the sinusoidal embeddings.
const timeDim = 256

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	w := c.Width()
	m := &Model{Config: c, norm: nn.PlainNorm(kernels.LayerNorm, 1e-6)}
	e := p.Sub("time_text_embed")
	embedder := func(name string, in int) *nn.MLP {
		return &nn.MLP{Up: e.Linear(name+".linear_1", in, w, true), Down: e.Linear(name+".linear_2", w, w, true), Act: kernels.SiLU}
	}
	m.timeMLP = embedder("timestep_embedder", timeDim)
	if c.Guidance {
		m.guidance = embedder("guidance_embedder", timeDim)
	}
	m.pooled = embedder("text_embedder", c.Pooled)
	m.context, m.in = p.Linear("context_embedder", c.Context, w, true), p.Linear("x_embedder", c.In, w, true)
	for i := range c.Layers {
		m.blocks = append(m.blocks, mmdit.NewBlock(p.At("transformer_blocks", i), mmdit.BlockOptions{Heads: c.Heads, HeadDim: c.HeadDim, QKNorm: true}))
	}
	for i := range c.Single {
		m.singles = append(m.singles, newSingle(p.At("single_transformer_blocks", i), c))
	}
	m.modulateOut = p.Linear("norm_out.linear", w, 2*w, true)
	m.out = p.Linear("proj_out", w, c.PatchSize*c.PatchSize*c.Out, true)
	return m
}

// Inputs of the network, one sample a row of the first axis.
type Inputs struct {
	Latents, Text, Pooled *autograd.Value // [B, tokens, In], [B, S, Context], [B, Pooled]
	Sources               *autograd.Value // [B, their tokens, In] of pictures that it is made of; nil for none
	Time, Guidance        []float32       // sigma, and the guidance scale where it is an input
	Places, TextPlaces    [][]float32     // of tokens, sources last: Grid, Nowhere
}

// Forward is the velocity at packed latents, as F32 [B, tokens, Out].
func (m *Model) Forward(tp *autograd.Tape, in Inputs) *autograd.Value {
	x, all := in.Latents, mmdit.Lengths{Picture: []int{in.Latents.Dim(1)}, Text: in.Text.Dim(1)}
	if in.Sources != nil {
		x = tp.Concat(1, x, in.Sources)
		all.Picture = append(all.Picture, in.Sources.Dim(1))
	}
	x = tp.OwnTokens(m.in.Apply(tp, x, autograd.With{}), all.Picture...)
	text := tp.OwnTokens(m.context.Apply(tp, in.Text, autograd.With{}))
	condition := m.condition(tp, in)
	turn := mmdit.Rotary{Heads: m.Heads, Axes: m.Axes}.Turn(tp, slices.Concat(in.TextPlaces, in.Places))
	for _, block := range m.blocks {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			y, t := block.Forward(tp, in[0], in[1], in[2], all, turn)
			return []*autograd.Value{y, t}
		}, x, text, condition)
		tp.Release(x, text)
		x, text = out[0], out[1]
	}
	x = mmdit.Joined(tp, text, x, all, len(m.singles), func(i int, both, condition *autograd.Value) *autograd.Value {
		return m.singles[i].forward(tp, both, condition, all, turn)
	}, condition)
	s := tp.Chunk(m.modulateOut.Apply(tp, condition, autograd.With{}), 2)
	return tp.AllTokens(m.out.Apply(tp, m.norm.Modulated(tp, x, s[0], s[1]), autograd.With{Wide: true}), all.Picture[0])
}

// condition is silu(time + guidance + pooled text), which all modulations read.
func (m *Model) condition(tp *autograd.Tape, in Inputs) *autograd.Value {
	sum := m.timeMLP.Apply(tp, waves(tp, "time", in.Time), autograd.With{})
	if m.guidance != nil {
		sum = m.guidance.Apply(tp, waves(tp, "guidance", in.Guidance), autograd.With{Residual: sum})
	}
	return tp.Unary(kernels.SiLU, m.pooled.Apply(tp, in.Pooled, autograd.With{Residual: sum}))
}

func waves(tp *autograd.Tape, name string, x []float32) *autograd.Value {
	thousands := make([]float32, len(x))
	for i, v := range x {
		thousands[i] = 1000 * v
	}
	return tp.Upload(name, nn.Timestep{Dim: timeDim, CosFirst: true}.Embed(thousands), len(x), timeDim)
}

// A layer of one stream over text and picture together, attention beside the MLP:
//
//	x̂ = norm(x)·(1+c) + s
//	x += g · out([attention(x̂), gelu(up(x̂))])
type single struct {
	modulation *nn.Linear
	attention  *nn.Attention
	up, out    *nn.Linear
	norm       *nn.Norm
}

func newSingle(p *nn.Params, c Config) *single {
	w, attn := c.Width(), p.Sub("attn")
	return &single{
		modulation: p.Linear("norm.linear", w, 3*w, true),
		attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear("to_q", w, w, true), K: attn.Linear("to_k", w, w, true), V: attn.Linear("to_v", w, w, true),
			NormQ: attn.RMSNorm("norm_q", c.HeadDim, 1e-6), NormK: attn.RMSNorm("norm_k", c.HeadDim, 1e-6)},
		up: p.Linear("proj_mlp", w, 4*w, true), out: p.Linear("proj_out", 5*w, w, true), norm: nn.PlainNorm(kernels.LayerNorm, 1e-6),
	}
}

func (s *single) forward(tp *autograd.Tape, x, condition *autograd.Value, all mmdit.Lengths, turn func(*autograd.Value) *autograd.Value) *autograd.Value {
	m := tp.Chunk(s.modulation.Apply(tp, condition, autograd.With{}), 3)
	h := s.norm.Modulated(tp, x, m[1], m[0])
	q, k, v := s.attention.QKV(tp, h, h)
	var beside autograd.Place
	place := func() autograd.Place {
		places := tp.Places(h, h.Dim(-1), 4*h.Dim(-1))
		beside = places[1]
		return places[0]
	}
	a := mmdit.Attend(tp, q, k, v, turn, autograd.Attend{Heads: s.attention.Heads}, place, all.TextFirst()...)
	up := s.up.Apply(tp, h, autograd.With{Act: kernels.GELUTanh, Place: beside})
	both := tp.Concat(2, a, up)
	tp.Release(h, a, up)
	y := s.out.Apply(tp, both, autograd.With{Gate: m[2], Residual: x})
	tp.Release(both)
	return y
}

// Places of tokens are an index, a row and a column (mmdit's Rotary).

// Grid is the places of h x w tokens of a picture: (index, row, column).
func Grid(index, h, w int) [][]float32 {
	var places [][]float32
	for y := range h {
		for x := range w {
			places = append(places, []float32{float32(index), float32(y), float32(x)})
		}
	}
	return places
}

// Nowhere is the places of n tokens of text.
func Nowhere(n int) [][]float32 {
	places := make([][]float32, n)
	for i := range places {
		places[i] = make([]float32, 3)
	}
	return places
}
