package mmdit

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Tokens of a layer whose picture stream has two parts: the picture that is made, and pictures that
// it is made of, which may have a condition of their own (Qwen-Image-Edit tells the network that they
// are clean). Their weights are the same. Text comes last, so that samples whose texts are
// shorter see fewer keys.

// Joint is what such a layer reads and returns.
type Joint struct {
	X, Source, Text *autograd.Value // Source is nil where there is none, or where its condition is X's and X holds it
}

// JointWith is what all layers read.
type JointWith struct {
	Condition, Source *autograd.Value // of X and text, and of the sources; after its activation
	Turn              func(*autograd.Value) *autograd.Value
	KeyLens           []int32 // tokens that are seen, one number a sample; nil: all
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
	jq, jk, jv := join(q), join(k), join(v)
	tq, tk := w.Turn(jq), w.Turn(jk)
	tp.Release(jq, jk)
	a := tp.Attention(tq, tk, jv, autograd.Attend{Heads: b.heads, KeyLens: w.KeyLens})
	tp.Release(tq, tk, jv)
	halves := tp.Split(a, 1, lengths...)
	tp.Release(a)
	last := len(parts) - 1
	out := Joint{X: parts[0].finish(tp, parts[0].x, halves[0], parts[0].by), Text: parts[last].finish(tp, parts[last].x, halves[last], parts[last].by)}
	if in.Source != nil {
		out.Source = parts[1].finish(tp, parts[1].x, halves[1], parts[1].by)
	}
	return out
}
