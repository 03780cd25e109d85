package t5

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Model is the encoder.
type Model struct {
	Config
	tokens *autograd.Param
	layers []*layer
	final  *nn.Norm
}

// layer: x += out(attention(norm(x)) with relative biases, unscaled), x += mlp(norm(x)).
type layer struct {
	before, between *nn.Norm
	attention       *nn.Attention
	bias            *autograd.Param // nil: that of the first layer
	mlp             interface {
		Apply(*autograd.Tape, *autograd.Value, autograd.With) *autograd.Value
	}
}

// New asks p for the encoder's parameters; p.Check says what was wrong with them. What a
// folder has of a decoder is left alone.
func New(p *nn.Params, c Config) *Model {
	p.Ignore(`decoder\..*`, `lm_head\.weight`, `encoder\.embed_tokens\.weight`)
	m := &Model{Config: c, tokens: p.Embedding("shared", c.Vocabulary, c.Width), final: p.RMSNorm("encoder.final_layer_norm", c.Width, c.Eps)}
	inner := c.Heads * c.HeadDim
	for i := range c.Layers {
		b := p.At("encoder.block", i)
		a, f := b.Sub("layer.0.SelfAttention"), b.Sub("layer.1.DenseReluDense")
		l := &layer{before: b.RMSNorm("layer.0.layer_norm", c.Width, c.Eps), between: b.RMSNorm("layer.1.layer_norm", c.Width, c.Eps),
			attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("q", c.Width, inner, false), K: a.Linear("k", c.Width, inner, false),
				V: a.Linear("v", c.Width, inner, false), Out: a.Linear("o", inner, c.Width, false)}}
		if i == 0 || c.ModelType == "umt5" {
			l.bias = a.Embedding("relative_attention_bias", c.Buckets, c.Heads)
		}
		if c.FeedFwd == "relu" {
			l.mlp = &nn.MLP{Up: f.Linear("wi", c.Width, c.Inner, false), Down: f.Linear("wo", c.Inner, c.Width, false), Act: kernels.ReLU}
		} else {
			l.mlp = &nn.GatedMLP{Gate: f.Linear("wi_0", c.Width, c.Inner, false), Up: f.Linear("wi_1", c.Width, c.Inner, false),
				Down: f.Linear("wo", c.Inner, c.Width, false), Act: kernels.GELUTanh}
		}
		m.layers = append(m.layers, l)
	}
	return m
}

// Forward encodes texts of one length. lengths, where not nil, are how many tokens of each
// text are seen as keys; all rows are computed. It returns [B, S, Width].
func (m *Model) Forward(tp *autograd.Tape, ids [][]int32, lengths []int32) *autograd.Value {
	n, flat := len(ids[0]), []int32(nil)
	for _, row := range ids {
		if len(row) != n {
			panic(fmt.Sprintf("t5: texts of %d and %d tokens in one call", n, len(row)))
		}
		flat = append(flat, row...)
	}
	x := tp.Embedding(m.tokens, flat, len(ids), n)
	buckets := m.buckets(n)
	var bias *autograd.Value
	for _, l := range m.layers {
		if l.bias != nil {
			bias = tp.Permute(tp.EmbeddingWide(l.bias, buckets, 1, n, n), 0, 3, 1, 2)
		}
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			h := l.before.Apply(tp, in[0])
			y := l.attention.Apply(tp, h, h, autograd.Attend{Scale: 1, KeyLens: lengths, Bias: in[1]}, autograd.With{Residual: in[0]})
			tp.Release(h)
			g := l.between.Apply(tp, y)
			return []*autograd.Value{l.mlp.Apply(tp, g, autograd.With{Residual: y})}
		}, x, bias)
		tp.Release(x)
		x = out[0]
	}
	return m.final.Apply(tp, x)
}
