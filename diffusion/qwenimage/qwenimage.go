// Package qwenimage is the transformer of Qwen-Image (Qwen team, 2025, arXiv 2508.02324) and of its
// editing models, with diffusers' parameter names (QwenImageTransformer2DModel).
//
// Start with Model.Forward; layers are package mmdit's. Latents are packed: a token is a 2 x 2 patch of the
// autoencoder's pictures. The time is sigma; the network multiplies by 1000.
package qwenimage

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a QwenImageTransformer2DModel.
type Config struct {
	PatchSize int   `json:"patch_size"`
	In        int   `json:"in_channels"`
	Out       int   `json:"out_channels"` // of the unpacked latents
	Layers    int   `json:"num_layers"`
	Heads     int   `json:"num_attention_heads"`
	HeadDim   int   `json:"attention_head_dim"`
	Context   int   `json:"joint_attention_dim"`
	Axes      []int `json:"axes_dims_rope"` // of a head: picture, row, column
	Guidance  bool  `json:"guidance_embeds"`
	// Clean: the time of source pictures is 0 (Edit-2511).
	Clean   bool `json:"zero_cond_t"`
	Layered bool `json:"use_layer3d_rope"`
	Kinds   bool `json:"use_additional_t_cond"`
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 2, In: 64, Out: 16, Layers: 60, Heads: 24, HeadDim: 128, Context: 3584, Axes: []int{16, 56, 56}}
	if err := hub.Config(dir, &c, "QwenImageTransformer2DModel"); err != nil {
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
	l.Int("patch_size", c.PatchSize, 1, 16)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Must(len(c.Axes) == 3, `"axes_dims_rope" has %d numbers; 3 are needed`, len(c.Axes))
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	l.Must(!c.Guidance, `"guidance_embeds" is true; no published Qwen-Image reads a guidance scale`)
	l.Must(!c.Layered && !c.Kinds, `"use_layer3d_rope" or "use_additional_t_cond" is true: Qwen-Image-Layered is not known`)
	return l.Err()
}

// Model is the network: packed latents and text in, a velocity for every token out.
type Model struct {
	Config
	in, words        *nn.Linear
	textNorm         *nn.Norm
	timeMLP          *nn.MLP
	blocks           []*mmdit.Block
	modulateOut, out *nn.Linear
	norm             *nn.Norm
}

// timeDim is the length of the sinusoidal embedding.
const timeDim = 256

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	w := c.Width()
	m := &Model{Config: c, norm: nn.PlainNorm(kernels.LayerNorm, 1e-6), textNorm: p.RMSNorm("txt_norm", c.Context, 1e-6)}
	e := p.Sub("time_text_embed.timestep_embedder")
	m.timeMLP = &nn.MLP{Up: e.Linear("linear_1", timeDim, w, true), Down: e.Linear("linear_2", w, w, true), Act: kernels.SiLU}
	m.in, m.words = p.Linear("img_in", c.In, w, true), p.Linear("txt_in", c.Context, w, true)
	called := mmdit.Names{Modulation: "img_mod.1", TextModulation: "txt_mod.1", MLP: "img_mlp", TextMLP: "txt_mlp"}
	for i := range c.Layers {
		at := p.At("transformer_blocks", i)
		m.blocks = append(m.blocks, mmdit.NewBlock(at, mmdit.BlockOptions{Heads: c.Heads, HeadDim: c.HeadDim, QKNorm: true, Names: called}))
	}
	m.modulateOut = p.Linear("norm_out.linear", w, 2*w, true)
	m.out = p.Linear("proj_out", w, c.PatchSize*c.PatchSize*c.Out, true)
	return m
}

// Inputs of the network, one sample a row of the first axis.
type Inputs struct {
	Latents  *autograd.Value // [B, tokens, In]
	Sources  *autograd.Value // [B, their tokens, In] of the pictures that it is made of; nil for none
	Text     *autograd.Value // [B, S, Context]
	Words    []int32         // tokens of each sample's text, where some are shorter; nil: all of them
	Time     []float32       // sigma
	Pictures []Picture       // the one that is made, then the sources
}

// Forward is the velocity at packed latents, as F32 [B, tokens, patch · Out].
func (m *Model) Forward(tp *autograd.Tape, in Inputs) *autograd.Value {
	m.check(in)
	made, words := in.Latents.Dim(1), in.Text.Dim(1)
	x, all := mmdit.Joint{X: in.Latents}, []int{made}
	if in.Sources != nil {
		all = append(all, in.Sources.Dim(1))
	}
	own := all
	switch {
	case in.Sources == nil:
	case m.Clean:
		x.Source, own = tp.OwnTokens(m.in.Apply(tp, in.Sources, autograd.With{})), all[:1]
	default:
		x.X = tp.Concat(1, in.Latents, in.Sources)
	}
	x.X = tp.OwnTokens(m.in.Apply(tp, x.X, autograd.With{}), own...)
	x.Text = tp.OwnTokens(m.words.Apply(tp, m.textNorm.Apply(tp, in.Text), autograd.With{}))
	with := mmdit.JointWith{All: append(all, words), Condition: m.condition(tp, in.Time), KeyLens: seen(in.Pictures, in.Words)}
	if x.Source != nil {
		with.Source = m.condition(tp, make([]float32, len(in.Time)))
	}
	with.Turn = mmdit.Rotary{Heads: m.Heads, Axes: m.Axes}.Turn(tp, places(in.Pictures, words))
	for _, block := range m.blocks {
		x = layer(tp, block, x, with)
	}
	y := x.X
	if here := tp.TokensHere(made); y.Dim(1) > here {
		y = tp.Split(y, 1, here, y.Dim(1)-here)[0]
	}
	s := tp.Chunk(m.modulateOut.Apply(tp, with.Condition, autograd.With{}), 2)
	return tp.AllTokens(m.out.Apply(tp, m.norm.Modulated(tp, y, s[0], s[1]), autograd.With{Wide: true}), made)
}

// layer runs a block as a unit of memory.
func layer(tp *autograd.Tape, block *mmdit.Block, x mmdit.Joint, with mmdit.JointWith) mmdit.Joint {
	given := []*autograd.Value{x.X, x.Text, with.Condition}
	if x.Source != nil {
		given = append(given, x.Source, with.Source)
	}
	out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		j, w := mmdit.Joint{X: in[0], Text: in[1]}, with
		w.Condition = in[2]
		if len(in) > 3 {
			j.Source, w.Source = in[3], in[4]
		}
		y := block.ForwardJoint(tp, j, w)
		if y.Source != nil {
			return []*autograd.Value{y.X, y.Text, y.Source}
		}
		return []*autograd.Value{y.X, y.Text}
	}, given...)
	tp.Release(x.X, x.Text)
	y := mmdit.Joint{X: out[0], Text: out[1]}
	if x.Source != nil {
		tp.Release(x.Source)
		y.Source = out[2]
	}
	return y
}

// condition is silu(time), which all modulations read.
func (m *Model) condition(tp *autograd.Tape, sigmas []float32) *autograd.Value {
	thousands := make([]float32, len(sigmas))
	for i, v := range sigmas {
		thousands[i] = 1000 * v
	}
	waves := nn.Timestep{Dim: timeDim, CosFirst: true}.Embed(thousands)
	return tp.Unary(kernels.SiLU, m.timeMLP.Apply(tp, tp.Upload("time", waves, len(sigmas), timeDim), autograd.With{}))
}

// seen is how many tokens each sample attends to: those of pictures, and its words.
func seen(pictures []Picture, words []int32) []int32 {
	if words == nil {
		return nil
	}
	n := int32(0)
	for _, p := range pictures {
		n += int32(p.Len())
	}
	all := make([]int32, len(words))
	for i, w := range words {
		all[i] = n + w
	}
	return all
}

// check panics where inputs do not fit: the caller has checked users' input.
func (m *Model) check(in Inputs) {
	if len(in.Pictures) == 0 || in.Pictures[0].Len() != in.Latents.Dim(1) {
		panic(fmt.Sprintf("qwenimage: %d tokens of pictures %v", in.Latents.Dim(1), in.Pictures))
	}
	n := 0
	for _, p := range in.Pictures[1:] {
		n += p.Len()
	}
	if have := in.Sources; have == nil && n > 0 || have != nil && have.Dim(1) != n {
		panic(fmt.Sprintf("qwenimage: sources of %v for pictures %v", in.Sources, in.Pictures[1:]))
	}
}

// A Picture is tokens of h x w in rows.
type Picture struct{ Rows, Cols int }

// Len is the number of its tokens.
func (p Picture) Len() int { return p.Rows * p.Cols }

// places are those of pictures, the one that is made first, and of text behind them. A picture's index is its
// number, its rows and columns are counted from the middle: -(n - n/2) ... n/2-1. Text goes on from
// the largest n/2 of all sides, the same number on every axis.
func places(pictures []Picture, words int) (all [][]float32) {
	most := 0
	for i, p := range pictures {
		top, left := p.Rows-p.Rows/2, p.Cols-p.Cols/2
		for y := range p.Rows {
			for x := range p.Cols {
				all = append(all, []float32{float32(i), float32(y - top), float32(x - left)})
			}
		}
		most = max(most, p.Rows/2, p.Cols/2)
	}
	for i := range words {
		at := float32(most + i)
		all = append(all, []float32{at, at, at})
	}
	return all
}
