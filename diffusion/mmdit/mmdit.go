// Package mmdit is the transformer of Stable Diffusion 3 and 3.5 (MMDiT and MMDiT-X; Esser
// et al., 2024, "Scaling rectified flow transformers"), with diffusers' parameter names.
//
// Start with Model.Forward; block.go is one layer. Latents are pictures
// [B, H, W, C], channels last. Time is in thousandths: 1000·sigma.
package mmdit

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of an SD3Transformer2DModel.
type Config struct {
	SampleSize    int     `json:"sample_size"` // of latents it was trained on: the scale of positions
	PatchSize     int     `json:"patch_size"`
	In            int     `json:"in_channels"`
	Out           int     `json:"out_channels"` // 0: as In
	Layers        int     `json:"num_layers"`
	Heads         int     `json:"num_attention_heads"`
	HeadDim       int     `json:"attention_head_dim"`
	Context       int     `json:"joint_attention_dim"`
	ContextWidth  int     `json:"caption_projection_dim"`
	Pooled        int     `json:"pooled_projection_dim"`
	PositionsSide int     `json:"pos_embed_max_size"`
	Dual          []int   `json:"dual_attention_layers"` // layers with a second attention of the picture alone
	QKNorm        *string `json:"qk_norm"`               // "rms_norm" or null
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{SampleSize: 128, PatchSize: 2, In: 16, Layers: 18, Heads: 18, HeadDim: 64, Context: 4096, ContextWidth: 1152, Pooled: 2048, PositionsSide: 96}
	if err := hub.Config(dir, &c, "SD3Transformer2DModel"); err != nil {
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
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("out_channels", c.Out, 1, 1024)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 1, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Int("pooled_projection_dim", c.Pooled, 1, 1<<16)
	l.Int("pos_embed_max_size", c.PositionsSide, 1, 4096)
	l.Must(c.ContextWidth == c.Width(), `"caption_projection_dim" is %d; joint attention needs num_attention_heads x attention_head_dim = %d`, c.ContextWidth, c.Width())
	l.Must(c.QKNorm == nil || *c.QKNorm == "rms_norm", `"qk_norm" may be "rms_norm" or null`)
	for _, i := range c.Dual {
		l.Must(i >= 0 && i < c.Layers, `"dual_attention_layers" names layer %d of %d`, i, c.Layers)
	}
	return l.Err()
}

// Model is the network: patches and text in, a velocity for every pixel of the latents out.
type Model struct {
	Config
	patch            *nn.Conv
	params           *nn.Params
	positions        *nn.Buffer // of PositionsSide x PositionsSide patches
	crops            map[[2]int]*autograd.Param
	context          *nn.Linear
	timeMLP, pooled  *nn.MLP
	blocks           []*Block
	modulateOut, out *nn.Linear
	norm             *nn.Norm
}

// timeDim is the length of the sinusoidal embedding.
const timeDim = 256

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	w := c.Width()
	m := &Model{Config: c, norm: plain(), params: p, crops: map[[2]int]*autograd.Param{}}
	shape := nn.Square(c.In, w, c.PatchSize, c.PatchSize, 0)
	m.patch = p.Conv("pos_embed.proj", shape, true)
	m.positions = p.Buffer("pos_embed.pos_embed", func() []float32 { return c.waves() }, 1, c.PositionsSide*c.PositionsSide, w)
	e := p.Sub("time_text_embed")
	m.timeMLP = &nn.MLP{Up: e.Linear("timestep_embedder.linear_1", timeDim, w, true), Down: e.Linear("timestep_embedder.linear_2", w, w, true), Act: kernels.SiLU}
	m.pooled = &nn.MLP{Up: e.Linear("text_embedder.linear_1", c.Pooled, w, true), Down: e.Linear("text_embedder.linear_2", w, w, true), Act: kernels.SiLU}
	m.context = p.Linear("context_embedder", c.Context, w, true)
	for i := range c.Layers {
		m.blocks = append(m.blocks, NewBlock(p.At("transformer_blocks", i), BlockOptions{Heads: c.Heads, HeadDim: c.HeadDim,
			QKNorm: c.QKNorm != nil, Dual: slices.Contains(c.Dual, i), Last: i == c.Layers-1}))
	}
	m.modulateOut = p.Linear("norm_out.linear", w, 2*w, true)
	m.out = p.Linear("proj_out", w, c.PatchSize*c.PatchSize*c.Out, true)
	return m
}

// Forward is the velocity at latents [B, H, W, In], as F32 [B, H, W, Out]. text is
// [B, S, Context], pooled [B, Pooled], and time, one number a sample, 1000·sigma.
func (m *Model) Forward(tp *autograd.Tape, latents, text, pooled *autograd.Value, time []float32) *autograd.Value {
	b, h, w := latents.Dim(0), latents.Dim(1)/m.PatchSize, latents.Dim(2)/m.PatchSize
	if h*m.PatchSize != latents.Dim(1) || w*m.PatchSize != latents.Dim(2) || max(h, w) > m.PositionsSide {
		panic(fmt.Sprintf("mmdit: latents of %d x %d: sides must be multiples of %d, and at most %d", latents.Dim(1), latents.Dim(2), m.PatchSize, m.PatchSize*m.PositionsSide))
	}
	grid := m.patch.Apply(tp, latents, nil)
	all := Lengths{[]int{h * w}, text.Dim(1)}
	x := tp.OwnTokens(tp.AddParam(tp.Reshape(grid, b, h*w, m.Width()), m.crop(h, w)))
	tp.Release(grid)
	context := tp.OwnTokens(m.context.Apply(tp, text, autograd.With{}))
	condition := m.condition(tp, pooled, time)
	for i, block := range m.blocks {
		if i == len(m.blocks)-1 {
			x = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
				y, _ := block.Forward(tp, in[0], in[1], in[2], all, nil)
				return []*autograd.Value{y}
			}, x, context, condition)[0]
			break
		}
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			y, t := block.Forward(tp, in[0], in[1], in[2], all, nil)
			return []*autograd.Value{y, t}
		}, x, context, condition)
		tp.Release(x, context)
		x, context = out[0], out[1]
	}
	s := tp.Chunk(m.modulateOut.Apply(tp, condition, autograd.With{}), 2)
	y := tp.AllTokens(m.out.Apply(tp, m.norm.Modulated(tp, x, s[0], s[1]), autograd.With{Wide: true}), all.Picture...)
	return unpatch(tp, y, b, h, w, m.PatchSize, m.Out)
}

// condition is silu(time + pooled text), which all modulations read.
func (m *Model) condition(tp *autograd.Tape, pooled *autograd.Value, time []float32) *autograd.Value {
	waves := nn.Timestep{Dim: timeDim, CosFirst: true}.Embed(time)
	t := m.timeMLP.Apply(tp, tp.Upload("time", waves, len(time), timeDim), autograd.With{})
	return tp.Unary(kernels.SiLU, m.pooled.Apply(tp, pooled, autograd.With{Residual: t}))
}

// crop is the middle h x w of the table of positions.
func (m *Model) crop(h, w int) *autograd.Param {
	key := [2]int{h, w}
	if m.crops[key] == nil {
		top, left := (m.PositionsSide-h)/2, (m.PositionsSide-w)/2
		var cut []float32
		for y := top; y < top+h; y++ {
			at := y*m.PositionsSide + left
			cut = append(cut, m.positions.Rows(at, at+w)...)
		}
		m.crops[key] = m.params.Constant(fmt.Sprintf("positions of %d x %d", h, w), cut, h*w, m.Width())
	}
	return m.crops[key]
}

// unpatch puts tokens [B, h·w, p·p·C] beside each other as pictures [B, h·p, w·p, C].
func unpatch(tp *autograd.Tape, x *autograd.Value, b, h, w, p, c int) *autograd.Value {
	rows := tp.Permute(tp.Reshape(x, b*h, w, p, p*c), 0, 2, 1, 3)
	return tp.Reshape(rows, b, h*p, w*p, c)
}

// Positions are a fixed table of sines and cosines over a grid of patches, centred crops of
// which are added to tokens (diffusers' get_2d_sincos_pos_embed, after MAE): the first half
// of a row is made of its x, the second of its y, each as sines then cosines of
//
//	position · base / side / 10000^(i/(width/4)),  base = SampleSize / PatchSize
//
// The hub's folders store the table; this is the initial value for a model of our own.

const log10000 = 9.210340371976184

func (c Config) waves() []float32 {
	side, quarter := c.PositionsSide, c.Width()/4
	table := make([]float32, 0, side*side*c.Width())
	base := float64(c.SampleSize / c.PatchSize)
	for y := range side {
		for x := range side {
			row := make([]float32, c.Width())
			for half, at := range []int{x, y} {
				for i := range quarter {
					sin, cos := nn.Sincos(float64(at) / (float64(side) / base) * nn.Exp(-log10000*float64(i)/float64(quarter)))
					row[half*2*quarter+i], row[half*2*quarter+quarter+i] = float32(sin), float32(cos)
				}
			}
			table = append(table, row...)
		}
	}
	return table
}
