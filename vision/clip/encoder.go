package clip

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A tower's layers: x += out(attention(norm(x))), x += mlp(norm(x)).

type layer struct {
	before, between *nn.Norm
	attention       attention
	mlp             *nn.MLP
}

// attention is nn.Attention, or one whose queries, keys and values are one product.
type attention interface {
	Apply(tp *autograd.Tape, x, context *autograd.Value, at autograd.Attend, o autograd.With) *autograd.Value
}

func newLayers(p *nn.Params, c Encoder) []*layer {
	layers := make([]*layer, c.Layers)
	for i := range layers {
		l := p.At("encoder.layers", i)
		a, w := l.Sub("self_attn"), c.Width
		layers[i] = &layer{
			before: l.LayerNorm("layer_norm1", w, c.Eps), between: l.LayerNorm("layer_norm2", w, c.Eps),
			attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("q_proj", w, w, true), K: a.Linear("k_proj", w, w, true),
				V: a.Linear("v_proj", w, w, true), Out: a.Linear("out_proj", w, w, true)},
			mlp: &nn.MLP{Up: l.Linear("mlp.fc1", w, c.Inner, true), Down: l.Linear("mlp.fc2", c.Inner, w, true), Act: activations[c.Act]},
		}
	}
	return layers
}

func (l *layer) forward(tp *autograd.Tape, x *autograd.Value, causal bool) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		y := l.attention.Apply(tp, h, h, autograd.Attend{Causal: causal}, autograd.With{Residual: in[0]})
		tp.Release(h)
		g := l.between.Apply(tp, y)
		return []*autograd.Value{l.mlp.Apply(tp, g, autograd.With{Residual: y})}
	}, x)[0]
}
