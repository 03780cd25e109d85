package dit

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

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
