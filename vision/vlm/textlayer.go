package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// textLayer is one layer of the language model.
type textLayer struct {
	before, between *nn.Norm
	q, k, v, out    *nn.Linear
	qNorm, kNorm    *nn.Norm // nil for none
	mlp             *nn.GatedMLP
}

func newTextLayer(l *nn.Params, t TextConfig) *textLayer {
	a, bias := l.Sub("self_attn"), !t.HeadNorms
	layer := &textLayer{
		before: l.RMSNorm("input_layernorm", t.Width, t.Eps), between: l.RMSNorm("post_attention_layernorm", t.Width, t.Eps),
		q: a.Linear("q_proj", t.Width, t.Heads*t.HeadDim, bias), k: a.Linear("k_proj", t.Width, t.KVHeads*t.HeadDim, bias),
		v: a.Linear("v_proj", t.Width, t.KVHeads*t.HeadDim, bias), out: a.Linear("o_proj", t.Heads*t.HeadDim, t.Width, false),
		mlp: gated(l, t.Width, t.Inner, false),
	}
	if t.HeadNorms {
		layer.qNorm, layer.kNorm = a.RMSNorm("q_norm", t.HeadDim, t.Eps), a.RMSNorm("k_norm", t.HeadDim, t.Eps)
	}
	return layer
}

func gated(p *nn.Params, width, inner int, bias bool) *nn.GatedMLP {
	return &nn.GatedMLP{Up: p.Linear("mlp.up_proj", width, inner, bias), Gate: p.Linear("mlp.gate_proj", width, inner, bias),
		Down: p.Linear("mlp.down_proj", inner, width, bias), Act: kernels.SiLU}
}

// attention is what a layer's queries [1, tokens, Heads HeadDim] see.
type attention func(layer int, q, k, v *autograd.Value) *autograd.Value

// reading is which tokens a layer goes on with, and how all of them are turned.
type reading struct {
	turn  angles
	asked []int32 // nil: all of them
	their angles
}

// forward gives what becomes of the tokens asked for; the others give keys and values.
func (l *textLayer) forward(tp *autograd.Tape, x *autograd.Value, i int, c TextConfig, r reading, attend attention) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		own, mine := in[0], h
		if r.asked != nil {
			own, mine = tp.Gather(own, r.asked, 1, len(r.asked)), tp.Gather(mine, r.asked, 1, len(r.asked))
		}
		q := r.their.apply(tp, l.qNorm.Heads(tp, l.q.Apply(tp, mine, autograd.With{}), c.Heads), c.Heads)
		k := r.turn.apply(tp, l.kNorm.Heads(tp, l.k.Apply(tp, h, autograd.With{}), c.KVHeads), c.KVHeads)
		a := attend(i, q, k, l.v.Apply(tp, h, autograd.With{}))
		y := l.out.Apply(tp, a, autograd.With{Residual: own})
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// turns are the angles of tokens with three indices each: a pair turns by one of them.
func (t TextConfig) turns(tp *autograd.Tape, at [3][]int) angles {
	f, axes := frequencies(t.Theta, t.HeadDim), t.axes()
	return turned(tp, len(at[0]), len(f), func(token, pair int) float32 {
		return float32(at[axes[pair]][token]) * f[pair]
	})
}

// axes says which index each pair of a head turns by: sections one after another, or every
// third pair a row's, every third a column's, as far as their sections reach.
func (t TextConfig) axes() []int {
	axes := make([]int, t.HeadDim/2)
	if t.Interleaved {
		for p := range axes {
			if axis := p % 3; p < 3*t.Sections[axis] {
				axes[p] = axis
			}
		}
		return axes
	}
	p := 0
	for axis, n := range t.Sections {
		for range n {
			axes[p] = axis
			p++
		}
	}
	return axes
}
