package zimage

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
)

// Model is the network: latents and a caption's states in, a number for every number of latents out.
type Model struct {
	Config
	in, words               *nn.Linear
	wordNorm                *nn.Norm
	timeMLP                 *nn.MLP
	picture, caption, joint []*layer
	noPixel, noWord         *autograd.Param // what fills sequences up
	norm                    *nn.Norm
	modulateOut, out        *nn.Linear
}

// Of the time's embedding.
const (
	waves = 256
	inner = 1024
)

// New asks p for the network's parameters; p.Check says what was wrong with them.
func New(p *nn.Params, c Config) *Model {
	w, patch := c.Width, c.Patch()*c.Patch()*c.In
	kind := fmt.Sprintf("%d-1", c.Patch())
	m := &Model{Config: c, norm: nn.PlainNorm(kernels.LayerNorm, 1e-6), in: p.Linear("all_x_embedder."+kind, patch, w, true),
		wordNorm: p.RMSNorm("cap_embedder.0", c.Caption, c.Eps), words: p.Linear("cap_embedder.1", c.Caption, w, true),
		noPixel: p.Vector("x_pad_token", 1, w), noWord: p.Vector("cap_pad_token", 1, w)}
	m.timeMLP = &nn.MLP{Up: p.Linear("t_embedder.mlp.0", waves, inner, true), Down: p.Linear("t_embedder.mlp.2", inner, c.timeWidth(), true), Act: kernels.SiLU}
	m.picture, m.caption = newLayers(p, "noise_refiner", c.Refine, c, true), newLayers(p, "context_refiner", c.Refine, c, false)
	m.joint = newLayers(p, "layers", c.Layers, c, true)
	final := p.Sub("all_final_layer." + kind)
	m.modulateOut, m.out = final.Linear("adaLN_modulation.1", c.timeWidth(), w, true), final.Linear("linear", w, patch, true)
	return m
}

// Forward is the output at latents [1, H, W, In], as F32 of their shape, for a caption's states [1, S, Caption] and
// the clean share at that time. One sample goes through at a time: where a picture's tokens are depends
// on its caption's length.
func (m *Model) Forward(tp *autograd.Tape, latents, caption *autograd.Value, clean float32) *autograd.Value {
	p, words := m.Patch(), caption.Dim(1)
	h, w := latents.Dim(1)/p, latents.Dim(2)/p
	if latents.Dim(0) != 1 || h*p != latents.Dim(1) || w*p != latents.Dim(2) {
		panic(fmt.Sprintf("zimage: latents of %v: one sample whose sides are multiples of %d was expected", latents.Shape(), p))
	}
	time := m.time(tp, clean)
	turn := func(places [][]float32) turning {
		return mmdit.Rotary{Heads: m.Heads, Axes: m.Axes, LogTheta: portable.Log(m.Theta)}.Turn(tp, places)
	}
	at, atWords := picturePlaces(h, w, words), captionPlaces(words)
	patches := tp.Reshape(tp.Permute(tp.Reshape(latents, h, p, w, p*m.In), 0, 2, 1, 3), 1, h*w, p*p*m.In)
	x := through(tp, m.picture, fill(tp, m.in.Apply(tp, patches, autograd.With{}), m.noPixel), time, turn(at))
	text := m.words.Apply(tp, m.wordNorm.Apply(tp, caption), autograd.With{})
	text = through(tp, m.caption, fill(tp, text, m.noWord), nil, turn(atWords))
	both := tp.Concat(1, x, text)
	tp.Release(x, text)
	both = through(tp, m.joint, both, time, turn(slices.Concat(at, atWords)))
	x = tp.Split(both, 1, h*w, both.Dim(1)-h*w)[0]
	scale := m.modulateOut.Apply(tp, tp.Unary(kernels.SiLU, time), autograd.With{})
	y := m.out.Apply(tp, m.norm.Modulated(tp, x, scale, nil), autograd.With{Wide: true})
	rows := tp.Permute(tp.Reshape(y, h, w, p, p*m.In), 0, 2, 1, 3)
	return tp.Reshape(rows, 1, h*p, w*p, m.In)
}

// time is what modulations read of it.
func (m *Model) time(tp *autograd.Tape, clean float32) *autograd.Value {
	at := []float32{clean * float32(m.Times)}
	return m.timeMLP.Apply(tp, tp.Upload("time", nn.Timestep{Dim: waves, CosFirst: true}.Embed(at), 1, waves), autograd.With{})
}

// Fits reports whether the places of a picture of h x w tokens, and of a caption, are within those that the network
// knows.
func (m Config) Fits(h, w, words int) bool {
	return 1+filled(words) < m.Longest[0] && h <= m.Longest[1] && w <= m.Longest[2]
}
