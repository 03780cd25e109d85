package zimage

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A layer. Its norms are RMS norms, and with c, g of linear(time), which the text's refiners do not read,
//
//	x += tanh(g₁) · norm(attention(norm(x)·(1+c₁)))
//	x += tanh(g₂) · norm(mlp(norm(x)·(1+c₂)))
type layer struct {
	modulation      *nn.Linear // nil: the layer is told no time
	attention       *nn.Attention
	mlp             *nn.GatedMLP
	before1, after1 *nn.Norm
	before2, after2 *nn.Norm
}

// headEps is of the norms of queries and keys.
const headEps = 1e-5

func newLayer(p *nn.Params, c Config, told bool) *layer {
	w, attn, f := c.Width, p.Sub("attention"), p.Sub("feed_forward")
	inner := int(float64(w) / 3 * 8)
	l := &layer{before1: p.RMSNorm("attention_norm1", w, c.Eps), after1: p.RMSNorm("attention_norm2", w, c.Eps),
		before2: p.RMSNorm("ffn_norm1", w, c.Eps), after2: p.RMSNorm("ffn_norm2", w, c.Eps),
		attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear("to_q", w, w, false), K: attn.Linear("to_k", w, w, false),
			V: attn.Linear("to_v", w, w, false), Out: attn.Linear("to_out.0", w, w, false)},
		mlp: &nn.GatedMLP{Gate: f.Linear("w1", w, inner, false), Up: f.Linear("w3", w, inner, false), Down: f.Linear("w2", inner, w, false), Act: kernels.SiLU}}
	if c.QKNorm {
		l.attention.NormQ, l.attention.NormK = attn.RMSNorm("norm_q", w/c.Heads, headEps), attn.RMSNorm("norm_k", w/c.Heads, headEps)
	}
	if told {
		l.modulation = p.Linear("adaLN_modulation.0", c.timeWidth(), 4*w, true)
	}
	return l
}

func newLayers(p *nn.Params, name string, n int, c Config, told bool) (all []*layer) {
	for i := range n {
		all = append(all, newLayer(p.Sub(fmt.Sprintf("%s.%d", name, i)), c, told))
	}
	return all
}

// turning rotates queries or keys.
type turning = func(*autograd.Value) *autograd.Value

// through takes tokens [1, S, Width] through layers, each a unit of memory. time is nil where they are told none.
func through(tp *autograd.Tape, layers []*layer, x, time *autograd.Value, turn turning) *autograd.Value {
	for _, l := range layers {
		in := []*autograd.Value{x}
		if time != nil {
			in = append(in, time)
		}
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			var time *autograd.Value
			if len(in) > 1 {
				time = in[1]
			}
			return []*autograd.Value{l.forward(tp, in[0], time, turn)}
		}, in...)
		tp.Release(x)
		x = out[0]
	}
	return x
}

func (l *layer) forward(tp *autograd.Tape, x, time *autograd.Value, turn turning) *autograd.Value {
	var by [4]*autograd.Value // scale, gate, scale, gate
	if time != nil {
		by = [4]*autograd.Value(tp.Chunk(l.modulation.Apply(tp, time, autograd.With{}), 4))
		by[1], by[3] = tp.Unary(kernels.Tanh, by[1]), tp.Unary(kernels.Tanh, by[3])
	}
	h := l.before1.Modulated(tp, x, by[0], nil)
	q, k, v := l.attention.QKV(tp, h, h)
	tq, tk := turn(q), turn(k)
	tp.Release(h, q, k)
	a := tp.Attention(tq, tk, v, autograd.Attend{Heads: l.attention.Heads})
	tp.Release(tq, tk, v)
	y := add(tp, l.after1.Apply(tp, l.attention.Out.Apply(tp, a, autograd.With{})), by[1], x)
	tp.Release(a)
	h = l.before2.Modulated(tp, y, by[2], nil)
	z := add(tp, l.after2.Apply(tp, l.mlp.Apply(tp, h, autograd.With{})), by[3], y)
	tp.Release(h, y)
	return z
}

// add is x + gate·y, and x + y without a gate.
func add(tp *autograd.Tape, y, gate, x *autograd.Value) *autograd.Value {
	defer tp.Release(y)
	if gate == nil {
		return tp.Add(x, y)
	}
	return tp.Gated(y, gate, x)
}
