package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: Qwen2.5-VL. The language model is Qwen2.5's: causal, grouped heads, biases on queries,
// keys and values; a token's pairs turn by time, row or column, section by section
// (positions.go). A picture's tokens take the tower's states in place of the table's rows.
// Padding is left out of the sequence rather than masked, so that it changes no bit.

// Model is a vision-language model.
type Model struct {
	Config
	Tower  *Tower
	tokens *autograd.Param
	layers []*textLayer
	norm   *nn.Norm
	head   *nn.Linear // nil where it is the table of tokens
}

type textLayer struct {
	before, between *nn.Norm
	q, k, v, out    *nn.Linear
	mlp             *nn.GatedMLP
}

// New asks p for a model's parameters.
func New(p *nn.Params, c Config) *Model {
	t := c.Text
	m := &Model{Config: c, Tower: NewTower(p.Sub("visual"), c.Vision)}
	s, dim := p.Sub("model"), t.Width/t.Heads
	m.tokens = s.Embedding("embed_tokens", t.Vocabulary, t.Width)
	for i := range t.Layers {
		l := s.At("layers", i)
		a := l.Sub("self_attn")
		m.layers = append(m.layers, &textLayer{
			before: l.RMSNorm("input_layernorm", t.Width, t.Eps), between: l.RMSNorm("post_attention_layernorm", t.Width, t.Eps),
			q: a.Linear("q_proj", t.Width, t.Width, true), k: a.Linear("k_proj", t.Width, t.KVHeads*dim, true),
			v: a.Linear("v_proj", t.Width, t.KVHeads*dim, true), out: a.Linear("o_proj", t.Width, t.Width, false),
			mlp: gated(l, t.Width, t.Inner, false),
		})
	}
	m.norm = s.RMSNorm("norm", t.Width, t.Eps)
	if !c.Tied {
		m.head = p.Linear("lm_head", t.Width, t.Vocabulary, false)
	}
	return m
}

// Input is one sequence without padding.
type Input struct {
	IDs             []int32
	Positions       [3][]int
	Pictures, Clips *autograd.Value // the tower's states [1, tokens, Width]; nil for none
}

// Forward is the logits [1, tokens, Vocabulary] of a sequence.
func (m *Model) Forward(tp *autograd.Tape, in Input) (*autograd.Value, error) {
	x, err := m.embed(tp, in)
	if err != nil {
		return nil, err
	}
	t := m.Text
	f := frequencies(t.Theta, t.Width/t.Heads)
	axes := make([]int, 0, len(f))
	for axis, n := range t.Sections {
		for range n {
			axes = append(axes, axis)
		}
	}
	for axis := range in.Positions {
		if len(in.Positions[axis]) != len(in.IDs) {
			return nil, fmt.Errorf("%d tokens with %d positions", len(in.IDs), len(in.Positions[axis]))
		}
	}
	turn := turned(tp, len(in.IDs), len(f), func(token, pair int) float32 {
		return float32(in.Positions[axes[pair]][token]) * f[pair]
	})
	for _, l := range m.layers {
		x = l.forward(tp, x, t, turn)
	}
	x = m.norm.Apply(tp, x)
	if m.head == nil {
		return tp.Linear(x, m.tokens, autograd.With{Wide: true}), nil
	}
	return m.head.Apply(tp, x, autograd.With{Wide: true}), nil
}

// embed is the table's rows, and the tower's states where pictures are.
func (m *Model) embed(tp *autograd.Tape, in Input) (*autograd.Value, error) {
	n := len(in.IDs)
	if n == 0 {
		return nil, fmt.Errorf("a sequence without tokens")
	}
	for i, id := range in.IDs {
		if id < 0 || int(id) >= m.Text.Vocabulary {
			return nil, fmt.Errorf("token %d is %d, and the model knows %d", i, id, m.Text.Vocabulary)
		}
	}
	x := tp.Embedding(m.tokens, in.IDs, 1, n)
	all, rows := []*autograd.Value{x}, make([]int32, n)
	from := n
	for _, s := range []struct {
		states *autograd.Value
		id     int32
	}{{in.Pictures, m.Picture}, {in.Clips, m.Clip}} {
		have := 0
		if s.states != nil {
			have = s.states.Dim(1)
			all = append(all, s.states)
		}
		used := 0
		for i, id := range in.IDs {
			if id == s.id {
				rows[i] = int32(from + used)
				used++
			}
		}
		if used != have {
			return nil, fmt.Errorf("%d tokens of pictures, and %d states", used, have)
		}
		from += have
	}
	if len(all) == 1 {
		return x, nil
	}
	for i, id := range in.IDs {
		if id != m.Picture && id != m.Clip {
			rows[i] = int32(i)
		}
	}
	return tp.Gather(tp.Concat(1, all...), rows, 1, n), nil
}

func (l *textLayer) forward(tp *autograd.Tape, x *autograd.Value, c TextConfig, turn angles) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		q := turn.apply(tp, l.q.Apply(tp, h, autograd.With{}), c.Heads)
		k := turn.apply(tp, l.k.Apply(tp, h, autograd.With{}), c.KVHeads)
		a := tp.Attention(q, k, l.v.Apply(tp, h, autograd.With{}), autograd.Attend{Heads: c.Heads, KVHeads: c.KVHeads, Causal: true})
		y := l.out.Apply(tp, a, autograd.With{Residual: in[0]})
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}
