package dit

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Model is the network: a clip's latents and text in, a velocity for every number of them out.
type Model struct {
	Config
	patch     *nn.Conv
	condition *condition
	blocks    []*block
	table     *autograd.Param // [1, 2, width]: shift and scale of the output
	norm      *nn.Norm
	out       *nn.Linear
}

// New asks p for the network's parameters; p.Check returns their mistakes.
func New(p *nn.Params, c Config) *Model {
	w := c.Width()
	m := &Model{Config: c, patch: p.ConvOfFrames("patch_embedding", nn.Square(c.Frames()*c.In, w, c.Side(), c.Side(), 0), c.Frames()),
		condition: newCondition(p.Sub("condition_embedder"), c), norm: nn.PlainNorm(kernels.LayerNorm, c.Eps)}
	for i := range c.Layers {
		m.blocks = append(m.blocks, newBlock(p.At("blocks", i), c))
	}
	m.table = p.Vector("scale_shift_table", 1, 2, w)
	m.out = p.Linear("proj_out", w, c.Frames()*c.Side()*c.Side()*c.Out, true)
	return m
}

// Inputs of the network, one sample a row of the first axis.
type Inputs struct {
	Latents *autograd.Value // [B, T, H, W, In]
	Text    *autograd.Value // [B, S, Text]
	Picture *autograd.Value // [B, n, Image]: a picture's tokens, where the network reads them
	// Time is 1000·sigma, one number a sample, or one a frame of a sample's latents.
	Time []float32
}

// Forward is the velocity, as F32 [B, T, H, W, Out].
func (m *Model) Forward(tp *autograd.Tape, in Inputs) *autograd.Value {
	side, shape := m.Side(), in.Latents.Shape()
	b, t, h, w := shape[0], shape[1]/m.Frames(), shape[2]/side, shape[3]/side
	m.check(tp, in, b, t, h, w)
	frames := m.folded(tp, in.Latents, b*t, h*side, w*side)
	grid := m.patch.Apply(tp, frames, nil)
	x := tp.OwnTokens(tp.Reshape(grid, b, t*h*w, m.Width()))
	tp.Release(frames, grid)
	e, by := m.condition.ofTime(tp, in.Time)
	beside := []*autograd.Value{m.condition.words.Apply(tp, in.Text, autograd.With{}), by}
	if m.Image > 0 {
		beside = append(beside, m.condition.ofPicture(tp, in.Picture))
	}
	turn := m.turn(tp, t, h, w)
	for _, layer := range m.blocks {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			var picture *autograd.Value
			if len(in) > 3 {
				picture = in[3]
			}
			return []*autograd.Value{layer.forward(tp, in[0], in[1], picture, in[2], t*h*w, turn)}
		}, append([]*autograd.Value{x}, beside...)...)
		tp.Release(x)
		x = out[0]
	}
	s := tp.Chunk(tp.AddParam(tp.Concat(1, e, e), m.table), 2)
	y := tp.AllTokens(m.out.Apply(tp, m.norm.Modulated(tp, x, s[1], s[0]), autograd.With{Wide: true}), t*h*w)
	rows := tp.Permute(tp.Reshape(m.unfolded(tp, y, b*t, h*w), b*t*m.Frames()*h, w, side, side*m.Out), 0, 2, 1, 3)
	return tp.Reshape(rows, b, t*m.Frames(), h*side, w*side, m.Out)
}

// folded is latents whose frames of a token are channels, those of the first channel first.
func (m *Model) folded(tp *autograd.Tape, x *autograd.Value, frames, h, w int) *autograd.Value {
	if m.Frames() == 1 {
		return tp.Reshape(x, frames, h, w, m.In)
	}
	apart := tp.Permute(tp.Reshape(x, frames, m.Frames(), h*w, m.In), 0, 2, 3, 1)
	return tp.Reshape(apart, frames, h, w, m.In*m.Frames())
}

// unfolded is tokens whose frames follow each other.
func (m *Model) unfolded(tp *autograd.Tape, y *autograd.Value, frames, places int) *autograd.Value {
	if m.Frames() == 1 {
		return y
	}
	return tp.Permute(tp.Reshape(y, frames, places, m.Frames(), m.Side()*m.Side()*m.Out), 0, 2, 1, 3)
}

// check panics on inputs that do not fit: the caller has checked user input.
func (m *Model) check(tp *autograd.Tape, in Inputs, b, t, h, w int) {
	shape := in.Latents.Shape()
	switch {
	case len(shape) != 5 || t*m.Frames() != shape[1] || h*m.Side() != shape[2] || w*m.Side() != shape[3] || shape[4] != m.In:
		panic(fmt.Sprintf("dit: latents %v: [B, T, H, W, %d] of multiples of %v were expected", shape, m.In, m.Patch))
	case max(t, h, w) > m.Longest:
		panic(fmt.Sprintf("dit: %d x %d x %d tokens: at most %d are possible along an axis", t, h, w, m.Longest))
	case len(in.Time) != b && !tp.Alone():
		panic(fmt.Sprintf("dit: %d times for %d samples whose tokens are shared: a rank's tokens are of no whole number of frames", len(in.Time), b))
	case len(in.Time) != b && len(in.Time) != b*t:
		panic(fmt.Sprintf("dit: %d times for %d samples of %d frames", len(in.Time), b, t))
	case (in.Picture != nil) != (m.Image > 0):
		panic("dit: a picture's tokens go to a network that reads them, and to no other")
	}
}

// The layers' inputs besides the latents:
//
//	e = mlp(waves(time))                 modulates the output
//	m = linear(silu(e)), 6 rows of it    modulates every layer, which adds rows of its own
//	words = mlp(text)
//	seen = norm(mlp(norm(tokens + places)))   of a picture, where the network reads one
type condition struct {
	waves          nn.Timestep
	time, words    *nn.MLP
	modulation     *nn.Linear
	before, after  *nn.Norm // nil: no picture is read
	seen           *nn.MLP
	places         *autograd.Param // nil: none
	placesOfTokens int
}

func newCondition(p *nn.Params, c Config) *condition {
	w := c.Width()
	out := &condition{waves: nn.Timestep{Dim: c.Waves, CosFirst: true}, modulation: p.Linear("time_proj", w, 6*w, true),
		time:  &nn.MLP{Up: p.Linear("time_embedder.linear_1", c.Waves, w, true), Down: p.Linear("time_embedder.linear_2", w, w, true), Act: kernels.SiLU},
		words: &nn.MLP{Up: p.Linear("text_embedder.linear_1", c.Text, w, true), Down: p.Linear("text_embedder.linear_2", w, w, true), Act: kernels.GELUTanh}}
	if c.Image == 0 {
		return out
	}
	i := p.Sub("image_embedder")
	out.before, out.after = i.LayerNorm("norm1", c.Image, 1e-5), i.LayerNorm("norm2", w, 1e-5)
	out.seen = &nn.MLP{Up: i.Linear("ff.net.0.proj", c.Image, c.Image, true), Down: i.Linear("ff.net.2", c.Image, w, true), Act: kernels.GELUErf}
	if out.placesOfTokens = c.Places; c.Places > 0 {
		out.places = i.Vector("pos_embed", 1, c.Places, c.Image)
	}
	return out
}

// ofTime is e and m, a row of each for every number.
func (c *condition) ofTime(tp *autograd.Tape, time []float32) (e, m *autograd.Value) {
	e = c.time.Apply(tp, tp.Upload("time", c.waves.Embed(time), len(time), c.waves.Dim), autograd.With{})
	return e, c.modulation.Apply(tp, tp.Unary(kernels.SiLU, e), autograd.With{})
}

// ofPicture returns the layers' features of a picture's tokens [B, n, Image]; of two pictures, where they have places,
// the tokens of the first, then those of the last.
func (c *condition) ofPicture(tp *autograd.Tape, tokens *autograd.Value) *autograd.Value {
	if c.places != nil {
		tokens = tp.AddParam(tokens, c.places)
	}
	return c.after.Apply(tp, c.seen.Apply(tp, c.before.Apply(tp, tokens), autograd.With{}))
}
