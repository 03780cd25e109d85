package flux2

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
)

// Model is the network: patches of latents and text in, a velocity for every token out.
type Model struct {
	Config
	in, context               *nn.Linear
	timeMLP, guidance         *nn.MLP // guidance is nil where it is no input
	byImage, byText, bySingle *nn.Linear
	doubles                   []*double
	singles                   []*single
	modulateOut, out          *nn.Linear
	norm                      *nn.Norm
}

// New asks p for the network's parameters; p.Check says what was wrong with them.
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
	made, x := in.Latents.Dim(1), in.Latents
	if in.Sources != nil {
		x = tp.Concat(1, x, in.Sources)
	}
	x = m.in.Apply(tp, x, autograd.With{})
	text := m.context.Apply(tp, in.Text, autograd.With{})
	condition := m.condition(tp, in)
	by := func(l *nn.Linear) *autograd.Value { return l.Apply(tp, condition, autograd.With{}) }
	byImage, byText, bySingle := by(m.byImage), by(m.byText), by(m.bySingle)
	turn := mmdit.Rotary{Heads: m.Heads, Axes: m.Axes, LogTheta: portable.Log(m.Theta)}.Turn(tp, slices.Concat(in.TextPlaces, in.Places))
	for _, layer := range m.doubles {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			y, t := layer.forward(tp, in[0], in[1], in[2], in[3], turn)
			return []*autograd.Value{y, t}
		}, x, text, byImage, byText)
		tp.Release(x, text)
		x, text = out[0], out[1]
	}
	x = mmdit.Joined(tp, text, x, made, len(m.singles), func(i int, both, by *autograd.Value) *autograd.Value {
		return m.singles[i].forward(tp, both, by, turn)
	}, bySingle)
	s := tp.Chunk(by(m.modulateOut), 2)
	return m.out.Apply(tp, m.norm.Modulated(tp, x, s[0], s[1]), autograd.With{Wide: true})
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
