package mmdit

import (
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

// Block is one layer. FLUX begins with such layers too: its tokens have places by
// rotation, text tokens first.
type Block struct {
	image, text *stream
	heads       int
}

// BlockOptions say which of the family's layers it is.
type BlockOptions struct {
	Heads, HeadDim int
	QKNorm         bool // RMS norms of each head's queries and keys
	Dual           bool // a second attention of the picture alone
	Last           bool // text is read for the last time
	Names          Names
}

// Names are what parts of a layer are called; the zero value is diffusers' usual names.
type Names struct{ Modulation, TextModulation, MLP, TextMLP string }

func (n Names) or(usual Names) Names {
	if n == (Names{}) {
		return usual
	}
	return n
}

func (o BlockOptions) width() int { return o.Heads * o.HeadDim }

// stream is one stream's half of a layer.
type stream struct {
	modulation *nn.Linear
	attention  *nn.Attention // Out is nil for the last layer's text
	second     *nn.Attention // of dual layers
	mlp        *nn.MLP
	norm       *nn.Norm
	continuous bool // the modulation is a scale and a shift alone
}

// NewBlock asks p for a layer's parameters.
func NewBlock(p *nn.Params, o BlockOptions) *Block {
	width := o.width()
	called := o.Names.or(Names{"norm1.linear", "norm1_context.linear", "ff", "ff_context"})
	attn, own := p.Sub("attn"), [4]string{"to_q", "to_k", "to_v", "to_out.0"}
	image := &stream{norm: plain(), attention: o.attention(attn, own, "norm_q", "norm_k"), mlp: mlp(p, called.MLP, width)}
	chunks := 6
	if o.Dual {
		chunks = 9
		image.second = o.attention(p.Sub("attn2"), own, "norm_q", "norm_k")
	}
	image.modulation = p.Linear(called.Modulation, width, chunks*width, true)
	names := [4]string{"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"}
	text := &stream{norm: plain(), continuous: o.Last}
	if o.Last {
		names[3] = ""
		text.modulation = p.Linear(called.TextModulation, width, 2*width, true)
	} else {
		text.modulation = p.Linear(called.TextModulation, width, 6*width, true)
		text.mlp = mlp(p, called.TextMLP, width)
	}
	text.attention = o.attention(attn, names, "norm_added_q", "norm_added_k")
	return &Block{image: image, text: text, heads: o.Heads}
}

func plain() *nn.Norm { return nn.PlainNorm(kernels.LayerNorm, 1e-6) }

func mlp(p *nn.Params, name string, width int) *nn.MLP {
	return &nn.MLP{Up: p.Linear(name+".net.0.proj", width, 4*width, true), Down: p.Linear(name+".net.2", 4*width, width, true), Act: kernels.GELUTanh}
}

// attention asks for the layers called names: queries, keys, values, out ("" for none).
func (o BlockOptions) attention(p *nn.Params, names [4]string, normQ, normK string) *nn.Attention {
	w := o.width()
	a := &nn.Attention{Heads: o.Heads, Q: p.Linear(names[0], w, w, true), K: p.Linear(names[1], w, w, true), V: p.Linear(names[2], w, w, true)}
	if names[3] != "" {
		a.Out = p.Linear(names[3], w, w, true)
	}
	if o.QKNorm {
		a.NormQ, a.NormK = p.RMSNorm(normQ, o.HeadDim, 1e-6), p.RMSNorm(normK, o.HeadDim, 1e-6)
	}
	return a
}

// Forward takes tokens of both streams and the condition, after its activation, and
// returns the tokens; text is nil after the last layer. Where tokens have places, turn
// rotates the joint queries or keys, text first; without, it is nil and pictures are first.
func (b *Block) Forward(tp *autograd.Tape, x, text, condition *autograd.Value, turn func(*autograd.Value) *autograd.Value) (*autograd.Value, *autograd.Value) {
	xs, ts := b.image.modulate(tp, x, condition), b.text.modulate(tp, text, condition)
	q, k, v := b.image.attention.QKV(tp, xs.in, xs.in)
	tq, tk, tv := b.text.attention.QKV(tp, ts.in, ts.in)
	join := func(x, t *autograd.Value) *autograd.Value {
		defer tp.Release(x, t)
		if turn == nil {
			return tp.Concat(1, x, t)
		}
		return tp.Concat(1, t, x)
	}
	jq, jk, jv := join(q, tq), join(k, tk), join(v, tv)
	if turn != nil {
		q, k := jq, jk
		jq, jk = turn(q), turn(k)
		tp.Release(q, k)
	}
	joint := tp.Attention(jq, jk, jv, autograd.Attend{Heads: b.heads})
	tp.Release(jq, jk, jv)
	var ax, at *autograd.Value
	if turn == nil {
		halves := tp.Split(joint, 1, x.Dim(1), text.Dim(1))
		ax, at = halves[0], halves[1]
	} else {
		halves := tp.Split(joint, 1, text.Dim(1), x.Dim(1))
		at, ax = halves[0], halves[1]
	}
	tp.Release(joint)
	x = b.image.finish(tp, x, ax, xs)
	if b.text.mlp == nil {
		return x, nil
	}
	return x, b.text.finish(tp, text, at, ts)
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
