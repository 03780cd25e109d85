package flux

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Model is the network: packed latents and text in, a velocity for every token out.
type Model struct {
	Config
	in, context               *nn.Linear
	timeMLP, guidance, pooled *nn.MLP // guidance is nil where it is no input
	blocks                    []*mmdit.Block
	singles                   []*single
	modulateOut, out          *nn.Linear
	norm                      *nn.Norm
}

// timeDim is the length of the sinusoidal embeddings.
const timeDim = 256

// New asks p for the network's parameters; p.Check says what was wrong with them.
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
	made, x := in.Latents.Dim(1), in.Latents
	if in.Sources != nil {
		x = tp.Concat(1, x, in.Sources)
	}
	x = m.in.Apply(tp, x, autograd.With{})
	text := m.context.Apply(tp, in.Text, autograd.With{})
	condition := m.condition(tp, in)
	turn := mmdit.Rotary{Heads: m.Heads, Axes: m.Axes}.Turn(tp, slices.Concat(in.TextPlaces, in.Places))
	for _, block := range m.blocks {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			y, t := block.Forward(tp, in[0], in[1], in[2], turn)
			return []*autograd.Value{y, t}
		}, x, text, condition)
		tp.Release(x, text)
		x, text = out[0], out[1]
	}
	x = mmdit.Joined(tp, text, x, made, len(m.singles), func(i int, both, condition *autograd.Value) *autograd.Value {
		return m.singles[i].forward(tp, both, condition, turn)
	}, condition)
	s := tp.Chunk(m.modulateOut.Apply(tp, condition, autograd.With{}), 2)
	return m.out.Apply(tp, m.norm.Modulated(tp, x, s[0], s[1]), autograd.With{Wide: true})
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
