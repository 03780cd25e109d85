// Package flux2 is the transformer of FLUX.2 (Black Forest Labs, 2025), with diffusers' parameter names
// (Flux2Transformer2DModel): layers of two streams, then layers of one, whose modulations are
// shared by all layers of a kind.
//
// Start with Model.Forward. A token is a 2 x 2 patch
// of the autoencoder's pictures; its place has four numbers: picture, row, column, and a word's number.
package flux2

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// Config is config.json of a Flux2Transformer2DModel.
type Config struct {
	PatchSize int     `json:"patch_size"`
	In        int     `json:"in_channels"`
	Out       int     `json:"out_channels"` // 0: as In
	Layers    int     `json:"num_layers"`
	Single    int     `json:"num_single_layers"`
	Heads     int     `json:"num_attention_heads"`
	HeadDim   int     `json:"attention_head_dim"`
	Context   int     `json:"joint_attention_dim"`
	Waves     int     `json:"timestep_guidance_channels"`
	Ratio     float64 `json:"mlp_ratio"`
	Axes      []int   `json:"axes_dims_rope"` // of a head: picture, row, column, word
	Theta     float64 `json:"rope_theta"`
	Eps       float32 `json:"eps"`
	Guidance  bool    `json:"guidance_embeds"` // the guidance scale is an input
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// Inner is the width of an MLP.
func (c Config) Inner() int { return int(float64(c.Width()) * c.Ratio) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 1, In: 128, Layers: 8, Single: 48, Heads: 48, HeadDim: 128, Context: 15360, Waves: 256, Ratio: 3,
		Axes: []int{32, 32, 32, 32}, Theta: 2000, Eps: 1e-6, Guidance: true}
	if err := hub.Config(dir, &c, "Flux2Transformer2DModel"); err != nil {
		return c, err
	}
	if c.Out == 0 {
		c.Out = c.In
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("patch_size", c.PatchSize, 1, 1)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 0, 512)
	l.Int("num_single_layers", c.Single, 0, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<17)
	l.Int("timestep_guidance_channels", c.Waves, 2, 4096)
	l.Float("mlp_ratio", c.Ratio, 0.01, 64)
	l.Float("rope_theta", c.Theta, 1.001, 1e9)
	l.Float("eps", float64(c.Eps), 0, 1)
	l.Must(c.Waves%2 == 0, `"timestep_guidance_channels" is %d; it must be even`, c.Waves)
	l.Must(len(c.Axes) == 4, `"axes_dims_rope" has %d numbers; 4 are needed`, len(c.Axes))
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	return l.Err()
}

// Model is the network: patches of latents and text in, a velocity for every token out.
type Model struct {
	Config
	in, context               *nn.Linear
	timeMLP, guidance         *nn.MLP // guidance is nil where it is not an input
	byImage, byText, bySingle *nn.Linear
	doubles                   []*double
	singles                   []*single
	modulateOut, out          *nn.Linear
	norm                      *nn.Norm
}

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	w := c.Width()
	m := &Model{Config: c, norm: nn.PlainNorm(kernels.LayerNorm, c.Eps)}
	e := p.Sub("time_guidance_embed")
	embedder := func(name string) *nn.MLP {
		return &nn.MLP{Up: e.Linear(name+".linear_1", c.Waves, w, false), Down: e.Linear(name+".linear_2", w, w, false), Act: kernels.SiLU}
	}
	m.timeMLP = embedder("timestep_embedder")
	if c.Guidance {
		m.guidance = embedder("guidance_embedder")
	}
	m.byImage, m.byText = p.Linear("double_stream_modulation_img.linear", w, 6*w, false), p.Linear("double_stream_modulation_txt.linear", w, 6*w, false)
	m.bySingle = p.Linear("single_stream_modulation.linear", w, 3*w, false)
	m.in, m.context = p.Linear("x_embedder", c.In, w, false), p.Linear("context_embedder", c.Context, w, false)
	for i := range c.Layers {
		m.doubles = append(m.doubles, newDouble(p.At("transformer_blocks", i), c))
	}
	for i := range c.Single {
		m.singles = append(m.singles, newSingle(p.At("single_transformer_blocks", i), c))
	}
	m.modulateOut = p.Linear("norm_out.linear", w, 2*w, false)
	m.out = p.Linear("proj_out", w, c.Out, false)
	return m
}

// Inputs of the network, one sample a row of the first axis.
type Inputs struct {
	Latents, Text      *autograd.Value // [B, tokens, In], [B, S, Context]
	Sources            *autograd.Value // [B, their tokens, In] of pictures that it is made of; nil for none
	Time, Guidance     []float32       // sigma, and the guidance scale where it is an input
	Places, TextPlaces [][]float32     // of tokens, sources last: Grid, Words
}

// Forward is the velocity at latents, as F32 [B, tokens, Out].
func (m *Model) Forward(tp *autograd.Tape, in Inputs) *autograd.Value {
	x, all := in.Latents, mmdit.Lengths{Picture: []int{in.Latents.Dim(1)}, Text: in.Text.Dim(1)}
	if in.Sources != nil {
		x = tp.Concat(1, x, in.Sources)
		all.Picture = append(all.Picture, in.Sources.Dim(1))
	}
	x = tp.OwnTokens(m.in.Apply(tp, x, autograd.With{}), all.Picture...)
	text := tp.OwnTokens(m.context.Apply(tp, in.Text, autograd.With{}))
	condition := m.condition(tp, in)
	by := func(l *nn.Linear) *autograd.Value { return l.Apply(tp, condition, autograd.With{}) }
	byImage, byText, bySingle := by(m.byImage), by(m.byText), by(m.bySingle)
	turn := mmdit.Rotary{Heads: m.Heads, Axes: m.Axes, LogTheta: portable.Log(m.Theta)}.Turn(tp, slices.Concat(in.TextPlaces, in.Places))
	attend := func(q, k, v *autograd.Value) *autograd.Value {
		return mmdit.Attend(tp, q, k, v, turn, autograd.Attend{Heads: m.Heads}, nil, all.TextFirst()...)
	}
	for _, layer := range m.doubles {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			y, t := layer.forward(tp, in[0], in[1], in[2], in[3], attend)
			return []*autograd.Value{y, t}
		}, x, text, byImage, byText)
		tp.Release(x, text)
		x, text = out[0], out[1]
	}
	x = mmdit.Joined(tp, text, x, all, len(m.singles), func(i int, both, by *autograd.Value) *autograd.Value {
		return m.singles[i].forward(tp, both, by, attend)
	}, bySingle)
	s := tp.Chunk(by(m.modulateOut), 2)
	return tp.AllTokens(m.out.Apply(tp, m.norm.Modulated(tp, x, s[0], s[1]), autograd.With{Wide: true}), all.Picture[0])
}

// condition is silu(time + guidance), which all modulations read.
func (m *Model) condition(tp *autograd.Tape, in Inputs) *autograd.Value {
	sum := m.timeMLP.Apply(tp, m.waves(tp, "time", in.Time), autograd.With{})
	if m.guidance != nil {
		sum = m.guidance.Apply(tp, m.waves(tp, "guidance", in.Guidance), autograd.With{Residual: sum})
	}
	return tp.Unary(kernels.SiLU, sum)
}

func (m *Model) waves(tp *autograd.Tape, name string, x []float32) *autograd.Value {
	thousands := make([]float32, len(x))
	for i, v := range x {
		thousands[i] = 1000 * v
	}
	return tp.Upload(name, nn.Timestep{Dim: m.Waves, CosFirst: true}.Embed(thousands), len(x), m.Waves)
}

// Grid is the places of h x w tokens of a picture: (index, row, column, 0).
func Grid(index, h, w int) [][]float32 {
	var places [][]float32
	for y := range h {
		for x := range w {
			places = append(places, []float32{float32(index), float32(y), float32(x), 0})
		}
	}
	return places
}

// Words is the places of n tokens of text: (0, 0, 0, number).
func Words(n int) [][]float32 {
	places := make([][]float32, n)
	for i := range places {
		places[i] = []float32{0, 0, 0, float32(i)}
	}
	return places
}

// A layer of two streams, whose shifts, scales and gates are the same in all of them:
//
//	x̂ = norm(x)·(1+c₁) + s₁            for both streams
//	a = attention over both, text first
//	x += g₁·out(a)
//	x += g₂·mlp(norm(x)·(1+c₂) + s₂)
//
// mlp(x) is down(silu(first half of up(x)) · second half). No layer has a bias.
type double struct {
	image, text stream
}

type stream struct {
	attention *nn.Attention
	mlp       gated
	norm      *nn.Norm
}

func newDouble(p *nn.Params, c Config) *double {
	attn := p.Sub("attn")
	of := func(q, k, v, out, normQ, normK, mlp string) stream {
		w := c.Width()
		return stream{norm: nn.PlainNorm(kernels.LayerNorm, c.Eps), mlp: newGated(p.Sub(mlp), c),
			attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear(q, w, w, false), K: attn.Linear(k, w, w, false), V: attn.Linear(v, w, w, false),
				Out: attn.Linear(out, w, w, false), NormQ: attn.RMSNorm(normQ, c.HeadDim, c.Eps), NormK: attn.RMSNorm(normK, c.HeadDim, c.Eps)}}
	}
	return &double{image: of("to_q", "to_k", "to_v", "to_out.0", "norm_q", "norm_k", "ff"),
		text: of("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "norm_added_q", "norm_added_k", "ff_context")}
}

// forward takes tokens of both streams, and the shifts, scales and gates of each, six to a row.
func (d *double) forward(tp *autograd.Tape, x, text, byX, byText *autograd.Value, attend attending) (*autograd.Value, *autograd.Value) {
	mx, mt := tp.Chunk(byX, 6), tp.Chunk(byText, 6)
	hx, ht := d.image.norm.Modulated(tp, x, mx[1], mx[0]), d.text.norm.Modulated(tp, text, mt[1], mt[0])
	q, k, v := d.image.attention.QKV(tp, hx, hx)
	tq, tk, tv := d.text.attention.QKV(tp, ht, ht)
	a := attend(tp.Concat(1, tq, q), tp.Concat(1, tk, k), tp.Concat(1, tv, v))
	tp.Release(hx, ht, q, k, v, tq, tk, tv)
	halves := tp.Split(a, 1, text.Dim(1), x.Dim(1))
	tp.Release(a)
	return d.image.finish(tp, x, halves[1], mx), d.text.finish(tp, text, halves[0], mt)
}

// finish is the rest of a stream's layer after its attention a.
func (s stream) finish(tp *autograd.Tape, x, a *autograd.Value, by []*autograd.Value) *autograd.Value {
	y := s.attention.Out.Apply(tp, a, autograd.With{Gate: by[2], Residual: x})
	h := s.norm.Modulated(tp, y, by[4], by[3])
	z := s.mlp.apply(tp, h, autograd.With{Gate: by[5], Residual: y})
	tp.Release(h, y)
	return z
}

// attending turns queries and keys of text and picture, and is their attention.
type attending = func(q, k, v *autograd.Value) *autograd.Value

// gated is an MLP.
type gated struct{ up, down *nn.Linear }

func newGated(p *nn.Params, c Config) gated {
	return gated{up: p.Linear("linear_in", c.Width(), 2*c.Inner(), false), down: p.Linear("linear_out", c.Inner(), c.Width(), false)}
}

func (g gated) apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	up := g.up.Apply(tp, x, autograd.With{})
	h := swiglu(tp, up)
	y := g.down.Apply(tp, h, o)
	tp.Release(up, h)
	return y
}

// swiglu is silu(first half) · second half.
func swiglu(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	halves := tp.Chunk(x, 2)
	return tp.GLU(kernels.SiLU, halves[1], halves[0])
}

// A layer of one stream over text and picture together, attention beside the MLP, both from one product
// and into one:
//
//	x̂ = norm(x)·(1+c) + s;  q, k, v, up = in(x̂)
//	x += g · out([attention(q, k, v), swiglu(up)])
type single struct {
	in, out      *nn.Linear
	normQ, normK *nn.Norm
	norm         *nn.Norm
	heads        int
	width, inner int
}

func newSingle(p *nn.Params, c Config) *single {
	w, attn := c.Width(), p.Sub("attn")
	return &single{heads: c.Heads, width: w, inner: c.Inner(), norm: nn.PlainNorm(kernels.LayerNorm, c.Eps),
		in: attn.Linear("to_qkv_mlp_proj", w, 3*w+2*c.Inner(), false), out: attn.Linear("to_out", w+c.Inner(), w, false),
		normQ: attn.RMSNorm("norm_q", c.HeadDim, c.Eps), normK: attn.RMSNorm("norm_k", c.HeadDim, c.Eps)}
}

func (s *single) forward(tp *autograd.Tape, x, by *autograd.Value, attend attending) *autograd.Value {
	m := tp.Chunk(by, 3)
	h := s.norm.Modulated(tp, x, m[1], m[0])
	all := s.in.Apply(tp, h, autograd.With{})
	tp.Release(h)
	parts := tp.Split(all, 2, s.width, s.width, s.width, 2*s.inner)
	a := attend(s.normQ.Heads(tp, parts[0], s.heads), s.normK.Heads(tp, parts[1], s.heads), parts[2])
	up := swiglu(tp, parts[3])
	both := tp.Concat(2, a, up)
	tp.Release(all, a, up)
	y := s.out.Apply(tp, both, autograd.With{Gate: m[2], Residual: x})
	tp.Release(both)
	return y
}
