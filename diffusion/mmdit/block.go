package mmdit

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
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

// Names are the names of a layer's parts; the zero value is diffusers' usual names.
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

// Lengths are the numbers of tokens, of which ranks that share them have a part each (autograd.Tokens): of the picture
// that is made, and of pictures behind it that it is made of; and of the text.
type Lengths struct {
	Picture []int
	Text    int
}

// TextFirst are the lengths of all parts, that of the text before those of pictures.
func (l Lengths) TextFirst() []int { return append([]int{l.Text}, l.Picture...) }

// Attend is attention of the tape's tokens to each other, of parts of these lengths: turn rotates queries and keys of
// all tokens; nil: they have no places. place makes the memory of the result, beside no more than the operation's own
// inputs, where the tape has all tokens; nil: the result has memory of its own. It lets go of q, k and v.
func Attend(tp *autograd.Tape, q, k, v *autograd.Value, turn func(*autograd.Value) *autograd.Value, at autograd.Attend, place func() autograd.Place, parts ...int) *autograd.Value {
	heads := at.Heads
	q, k, v = tp.ToHeads(q, heads, parts...), tp.ToHeads(k, heads, parts...), tp.ToHeads(v, heads, parts...)
	if turn != nil {
		tq, tk := turn(q), turn(k)
		tp.Release(q, k)
		q, k = tq, tk
	}
	if place != nil && tp.Alone() {
		at.Place = place()
	}
	at.Heads = tp.HeadsHere(heads)
	a := tp.Attention(q, k, v, at)
	tp.Release(q, k, v)
	return tp.ToTokens(a, heads, parts...)
}

// Forward takes tokens of both streams and the condition, after its activation, and
// returns the tokens; text is nil after the last layer. Where tokens have places, turn
// rotates the joint queries or keys, text first; without, it is nil and pictures are first.
func (b *Block) Forward(tp *autograd.Tape, x, text, condition *autograd.Value, all Lengths, turn func(*autograd.Value) *autograd.Value) (*autograd.Value, *autograd.Value) {
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
	parts := all.TextFirst()
	if turn == nil {
		parts = append(slices.Clone(all.Picture), all.Text)
	}
	joint := Attend(tp, join(q, tq), join(k, tk), join(v, tv), turn, autograd.Attend{Heads: b.heads}, nil, parts...)
	var ax, at *autograd.Value
	if turn == nil {
		halves := tp.Split(joint, 1, x.Dim(1), text.Dim(1))
		ax, at = halves[0], halves[1]
	} else {
		halves := tp.Split(joint, 1, text.Dim(1), x.Dim(1))
		at, ax = halves[0], halves[1]
	}
	tp.Release(joint)
	x = b.image.finish(tp, x, ax, xs, all.Picture)
	if b.text.mlp == nil {
		return x, nil
	}
	return x, b.text.finish(tp, text, at, ts, nil)
}

// modulated is the condition's modulation of a stream in one layer.
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

// finish is the rest of a stream's layer after its attention a; a second attention is between all tokens of its parts.
func (s *stream) finish(tp *autograd.Tape, x, a *autograd.Value, m modulated, parts []int) *autograd.Value {
	y := s.attention.Out.Apply(tp, a, autograd.With{Gate: m.gate, Residual: x})
	if s.second != nil {
		q, k, v := s.second.QKV(tp, m.second, m.second)
		h := Attend(tp, q, k, v, nil, autograd.Attend{Heads: s.second.Heads}, nil, parts...)
		y = s.second.Out.Apply(tp, h, autograd.With{Gate: m.gateSecond, Residual: y})
		tp.Release(h)
	}
	h := s.norm.Modulated(tp, y, m.scale, m.shift)
	z := s.mlp.Apply(tp, h, autograd.With{Gate: m.gateMLP, Residual: y})
	tp.Release(h, y)
	return z
}

// Tokens of a layer whose picture stream has two parts: the picture that is made, and pictures that
// it is made of, which may have a condition of their own (Qwen-Image-Edit tells the network that they
// are clean). Their weights are the same. Text comes last, so that samples whose texts are
// shorter see fewer keys.

// Joint is the input and the output of such a layer.
type Joint struct {
	X, Source, Text *autograd.Value // Source is nil without one, or where its condition is X's and X holds it
}

// JointWith is the input common to all layers.
type JointWith struct {
	Condition, Source *autograd.Value // of X and text, and of the sources; after its activation
	Turn              func(*autograd.Value) *autograd.Value
	KeyLens           []int32 // tokens that are seen, one number a sample; nil: all
	All               []int   // tokens of all ranks, of each part in its order
}

// ForwardJoint takes tokens through the layer.
func (b *Block) ForwardJoint(tp *autograd.Tape, in Joint, w JointWith) Joint {
	type part struct {
		*stream
		x  *autograd.Value
		by modulated
	}
	parts := []part{{stream: b.image, x: in.X, by: b.image.modulate(tp, in.X, w.Condition)}}
	if in.Source != nil {
		parts = append(parts, part{b.image, in.Source, b.image.modulate(tp, in.Source, w.Source)})
	}
	parts = append(parts, part{b.text, in.Text, b.text.modulate(tp, in.Text, w.Condition)})
	var q, k, v []*autograd.Value
	var lengths []int
	for _, p := range parts {
		pq, pk, pv := p.attention.QKV(tp, p.by.in, p.by.in)
		q, k, v, lengths = append(q, pq), append(k, pk), append(v, pv), append(lengths, p.x.Dim(1))
	}
	join := func(xs []*autograd.Value) *autograd.Value {
		defer tp.Release(xs...)
		return tp.Concat(1, xs...)
	}
	a := Attend(tp, join(q), join(k), join(v), w.Turn, autograd.Attend{Heads: b.heads, KeyLens: w.KeyLens}, nil, w.All...)
	halves := tp.Split(a, 1, lengths...)
	tp.Release(a)
	last := len(parts) - 1
	out := Joint{X: parts[0].finish(tp, parts[0].x, halves[0], parts[0].by, nil), Text: parts[last].finish(tp, parts[last].x, halves[last], parts[last].by, nil)}
	if in.Source != nil {
		out.Source = parts[1].finish(tp, parts[1].x, halves[1], parts[1].by, nil)
	}
	return out
}

// Joined is the second half of FLUX's networks: text and picture go through layers as one stream, words first, each
// layer a unit of memory that reads condition. It returns the tokens of the made picture; sources of an edit lie
// behind them. It lets go of text and x.
func Joined(tp *autograd.Tape, text, x *autograd.Value, all Lengths, layers int,
	forward func(i int, both, condition *autograd.Value) *autograd.Value, condition *autograd.Value) *autograd.Value {
	words, made := text.Dim(1), tp.TokensHere(all.Picture[0])
	both := tp.Concat(1, text, x)
	tp.Release(text, x)
	for i := range layers {
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			return []*autograd.Value{forward(i, in[0], in[1])}
		}, both, condition)
		tp.Release(both)
		both = out[0]
	}
	parts := []int{words, made}
	if rest := both.Dim(1) - words - made; rest > 0 {
		parts = append(parts, rest)
	}
	return tp.Split(both, 1, parts...)[1]
}

// Places of tokens turn queries and keys (Su et al., 2021, RoFormer; here over several
// axes): for each axis a of a token's place, with n = Axes[a],
//
//	angle[i] = place[a] / Theta^(2i/n), i = 0 ... n/2-1
//
// turns the elements 2i and 2i+1 of the axis's part of a head. Angles are float64, their
// cosines and sines fp32, as upstream computes them.

// Rotary is how a family's heads turn.
type Rotary struct {
	Heads    int
	Axes     []int   // numbers of a head that turn by each number of a place
	LogTheta float64 // 0: Theta is 10000
}

// Angles are the cosines and sines of places, half a head of each a token.
func (r Rotary) Angles(places [][]float32) (cos, sin []float32) {
	scale := -math.Ln10 * 4
	if r.LogTheta != 0 {
		scale = -r.LogTheta
	}
	for _, at := range places {
		for a, n := range r.Axes {
			for i := range n / 2 {
				s, co := nn.Sincos(float64(at[a]) * nn.Exp(scale*float64(2*i)/float64(n)))
				cos, sin = append(cos, float32(co)), append(sin, float32(s))
			}
		}
	}
	return cos, sin
}

// Turn rotates queries or keys of tokens at places.
func (r Rotary) Turn(tp *autograd.Tape, places [][]float32) func(*autograd.Value) *autograd.Value {
	cos, sin := r.Angles(places)
	upload := func(x []float32) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, x, len(places), len(x)/len(places))
		defer t.Free()
		return tp.Input(t)
	}
	c, s := upload(cos), upload(sin)
	return func(x *autograd.Value) *autograd.Value {
		return tp.Rope(x, tp.HeadsHere(r.Heads), c, s, kernels.RopeInterleaved)
	}
}

// CheckAxes reports problems with a head's parts.
func CheckAxes(l *hub.Limits, name string, axes []int, headDim int) {
	sum := 0
	for _, n := range axes {
		l.Must(n > 0 && n%2 == 0, `%q holds %d; each must be even and positive`, name, n)
		sum += n
	}
	l.Must(sum == headDim, `%q adds up to %d, and a head has %d numbers`, name, sum, headDim)
}
