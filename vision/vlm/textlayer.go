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
	qNorm, kNorm    *nn.Norm    // nil for none
	delta           *deltaNet   // in place of attention; nil where the layer attends
	mlp             feedForward // a *nn.GatedMLP, or *experts
}

func newTextLayer(l *nn.Params, t TextConfig, number int) *textLayer {
	layer := &textLayer{before: t.textNorm(l, "input_layernorm", t.Width), between: t.textNorm(l, "post_attention_layernorm", t.Width)}
	if t.attends(number) {
		layer.attend(l.Sub("self_attn"), t)
	} else {
		layer.delta = newDeltaNet(l.Sub("linear_attn"), t)
	}
	if t.sparse(number) {
		layer.mlp = newExperts(l.Sub("mlp"), t, number)
	} else {
		layer.mlp = gated(l, t.Width, t.Inner, false)
	}
	return layer
}

// attend asks for the parameters of attention.
func (l *textLayer) attend(a *nn.Params, t TextConfig) {
	bias, queries := !t.HeadNorms, t.Heads*t.HeadDim
	if t.Gated {
		queries *= 2 // each head's queries, then its gates
	}
	l.q, l.k = a.Linear("q_proj", t.Width, queries, bias), a.Linear("k_proj", t.Width, t.KVHeads*t.HeadDim, bias)
	l.v, l.out = a.Linear("v_proj", t.Width, t.KVHeads*t.HeadDim, bias), a.Linear("o_proj", t.Heads*t.HeadDim, t.Width, false)
	if t.HeadNorms {
		l.qNorm, l.kNorm = t.textNorm(a, "q_norm", t.HeadDim), t.textNorm(a, "k_norm", t.HeadDim)
	}
}

// textNorm asks for a norm of the language model.
func (t TextConfig) textNorm(p *nn.Params, name string, n int) *nn.Norm {
	norm := p.RMSNorm(name, n, t.Eps)
	norm.LessOne = t.Gated
	return norm
}

func gated(p *nn.Params, width, inner int, bias bool) *nn.GatedMLP {
	return &nn.GatedMLP{Up: p.Linear("mlp.up_proj", width, inner, bias), Gate: p.Linear("mlp.gate_proj", width, inner, bias),
		Down: p.Linear("mlp.down_proj", inner, width, bias), Act: kernels.SiLU}
}

// attention computes a layer's attention for queries [1, tokens, Heads HeadDim].
type attention func(layer int, q, k, v *autograd.Value) *autograd.Value

// looks is how tokens see others: those of layers that attend, and the rows that the tokens of
// other layers lie in.
type looks struct {
	attend attention
	runs   func(layer int) []run
}

// reading is which tokens a layer goes on with, and how all of them are turned.
type reading struct {
	turn  angles
	asked []int32 // nil: all of them
	their angles
}

// forward gives the layer's output for the tokens asked for; the others give keys and values.
func (l *textLayer) forward(tp *autograd.Tape, x *autograd.Value, i int, c TextConfig, r reading, see looks) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		own := r.pick(tp, in[0])
		var y *autograd.Value
		if l.delta != nil {
			y = l.delta.out.Apply(tp, r.pick(tp, l.delta.mix(tp, h, see.runs(i))), autograd.With{Residual: own})
		} else {
			y = l.out.Apply(tp, l.seen(tp, h, i, c, r, see.attend), autograd.With{Residual: own})
		}
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// seen is attention of the tokens asked for, before the last product.
func (l *textLayer) seen(tp *autograd.Tape, h *autograd.Value, i int, c TextConfig, r reading, attend attention) *autograd.Value {
	q := l.q.Apply(tp, r.pick(tp, h), autograd.With{})
	var gate *autograd.Value
	if c.Gated {
		q, gate = halves(tp, q, c.Heads)
	}
	q = r.their.part(tp, l.qNorm.Heads(tp, q, c.Heads), c.Heads)
	k := r.turn.part(tp, l.kNorm.Heads(tp, l.k.Apply(tp, h, autograd.With{}), c.KVHeads), c.KVHeads)
	a := attend(i, q, k, l.v.Apply(tp, h, autograd.With{}))
	if gate == nil {
		return a
	}
	return tp.GLU(kernels.Sigmoid, a, gate)
}

// halves are the first and the second half of each head, [1, tokens, heads n].
func halves(tp *autograd.Tape, x *autograd.Value, heads int) (first, second *autograd.Value) {
	tokens, n := x.Dim(1), x.Dim(2)/heads/2
	parts := tp.Split(tp.Reshape(x, 1, tokens, heads, 2*n), 3, n, n)
	return tp.Reshape(parts[0], 1, tokens, heads*n), tp.Reshape(parts[1], 1, tokens, heads*n)
}

// pick is the tokens asked for.
func (r reading) pick(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if r.asked == nil {
		return x
	}
	return tp.Gather(x, r.asked, 1, len(r.asked))
}

// turns are the angles of tokens with three indices each: a pair turns by one of them.
func (t TextConfig) turns(tp *autograd.Tape, at [3][]int) angles {
	f, scale := t.frequencies()
	axes := t.axes()
	return turned(tp, len(at[0]), len(f), scale, func(token, pair int) float32 {
		return float32(at[axes[pair]][token]) * f[pair]
	})
}

// axes says which index each pair of a head turns by: sections one after another, or every
// third pair a row's, every third a column's, as far as their sections reach.
func (t TextConfig) axes() []int {
	axes := make([]int, t.turning()/2)
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
