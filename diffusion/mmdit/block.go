package mmdit

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// One layer: picture and text have weights of their own and attend jointly, picture tokens
// first. With s, c, g the shift, scale and gate that the condition gives each stream:
//
//	x̂ = norm(x)·(1+c₁) + s₁            for both streams
//	a = attention over both
//	x += g₁·out(a);  x += g₃·out(attention of the picture alone)   in dual layers
//	x += g₂·mlp(norm(x)·(1+c₂) + s₂)
//
// The last layer's text is read for the last time in its attention: it has no out and no
// MLP, and its modulation has a scale, then a shift (diffusers' AdaLayerNormContinuous).

type block struct {
	image, text *stream
	heads       int
}

// stream is one stream's half of a layer.
type stream struct {
	modulation *nn.Linear
	attention  *nn.Attention // Out is nil for the last layer's text
	second     *nn.Attention // of dual layers
	mlp        *nn.MLP
	norm       *nn.Norm
	continuous bool // the modulation is a scale and a shift alone
}

func newBlock(p *nn.Params, c Config, layer int) *block {
	width, last := c.Width(), layer == c.Layers-1
	attn := p.Sub("attn")
	image := &stream{norm: plain(), attention: attention(attn, c, [4]string{"to_q", "to_k", "to_v", "to_out.0"}, "norm_q", "norm_k"), mlp: mlp(p, "ff", width)}
	chunks := 6
	if slices.Contains(c.Dual, layer) {
		chunks = 9
		image.second = attention(p.Sub("attn2"), c, [4]string{"to_q", "to_k", "to_v", "to_out.0"}, "norm_q", "norm_k")
	}
	image.modulation = p.Linear("norm1.linear", width, chunks*width, true)
	names := [4]string{"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"}
	text := &stream{norm: plain(), continuous: last}
	if last {
		names[3] = ""
		text.modulation = p.Linear("norm1_context.linear", width, 2*width, true)
	} else {
		text.modulation = p.Linear("norm1_context.linear", width, 6*width, true)
		text.mlp = mlp(p, "ff_context", width)
	}
	text.attention = attention(attn, c, names, "norm_added_q", "norm_added_k")
	return &block{image: image, text: text, heads: c.Heads}
}

func plain() *nn.Norm { return nn.PlainNorm(kernels.LayerNorm, 1e-6) }

func mlp(p *nn.Params, name string, width int) *nn.MLP {
	return &nn.MLP{Up: p.Linear(name+".net.0.proj", width, 4*width, true), Down: p.Linear(name+".net.2", 4*width, width, true), Act: kernels.GELUTanh}
}

// attention asks for the layers called names: queries, keys, values, out ("" for none).
func attention(p *nn.Params, c Config, names [4]string, normQ, normK string) *nn.Attention {
	w := c.Width()
	a := &nn.Attention{Heads: c.Heads, Q: p.Linear(names[0], w, w, true), K: p.Linear(names[1], w, w, true), V: p.Linear(names[2], w, w, true)}
	if names[3] != "" {
		a.Out = p.Linear(names[3], w, w, true)
	}
	if c.QKNorm != nil {
		a.NormQ, a.NormK = p.RMSNorm(normQ, c.HeadDim, 1e-6), p.RMSNorm(normK, c.HeadDim, 1e-6)
	}
	return a
}

// forward takes tokens of both streams and the condition, after its activation, and
// returns the tokens; text is nil after the last layer.
func (b *block) forward(tp *autograd.Tape, x, text, condition *autograd.Value) (*autograd.Value, *autograd.Value) {
	xs, ts := b.image.modulate(tp, x, condition), b.text.modulate(tp, text, condition)
	q, k, v := b.image.attention.QKV(tp, xs.in, xs.in)
	tq, tk, tv := b.text.attention.QKV(tp, ts.in, ts.in)
	jq, jk, jv := tp.Concat(1, q, tq), tp.Concat(1, k, tk), tp.Concat(1, v, tv)
	tp.Release(q, k, v, tq, tk, tv)
	joint := tp.Attention(jq, jk, jv, autograd.Attend{Heads: b.heads})
	tp.Release(jq, jk, jv)
	halves := tp.Split(joint, 1, x.Dim(1), text.Dim(1))
	tp.Release(joint)
	x = b.image.finish(tp, x, halves[0], xs)
	if b.text.mlp == nil {
		return x, nil
	}
	return x, b.text.finish(tp, text, halves[1], ts)
}

// modulated is what the condition does to a stream in one layer.
type modulated struct {
	in, second            *autograd.Value // the normed tokens that attention reads
	gate, gateSecond      *autograd.Value
	shift, scale, gateMLP *autograd.Value
}

func (s *stream) modulate(tp *autograd.Tape, x, condition *autograd.Value) modulated {
	all := s.modulation.Apply(tp, condition, autograd.With{})
	defer tp.Release(all)
	if s.continuous {
		m := tp.Chunk(all, 2)
		return modulated{in: s.norm.Modulated(tp, x, m[0], m[1])}
	}
	if s.second == nil {
		m := tp.Chunk(all, 6)
		return modulated{in: s.norm.Modulated(tp, x, m[1], m[0]), gate: m[2], shift: m[3], scale: m[4], gateMLP: m[5]}
	}
	m := tp.Chunk(all, 9)
	return modulated{in: s.norm.Modulated(tp, x, m[1], m[0]), gate: m[2], shift: m[3], scale: m[4], gateMLP: m[5],
		second: s.norm.Modulated(tp, x, m[7], m[6]), gateSecond: m[8]}
}

// finish is what follows a stream's attention a.
func (s *stream) finish(tp *autograd.Tape, x, a *autograd.Value, m modulated) *autograd.Value {
	y := s.attention.Out.Apply(tp, a, autograd.With{Gate: m.gate, Residual: x})
	if s.second != nil {
		y = s.second.Apply(tp, m.second, m.second, autograd.Attend{}, autograd.With{Gate: m.gateSecond, Residual: y})
	}
	h := s.norm.Modulated(tp, y, m.scale, m.shift)
	z := s.mlp.Apply(tp, h, autograd.With{Gate: m.gateMLP, Residual: y})
	tp.Release(h, y)
	return z
}
