package nn

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// MLP is down(act(up(x))).
type MLP struct {
	Up, Down *Linear
	Act      kernels.UnaryOp
}

// Apply computes the layer; o is the epilogue of the last product.
func (m *MLP) Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	h := m.Up.Apply(tp, x, autograd.With{Act: m.Act})
	y := m.Down.Apply(tp, h, o)
	tp.Release(h)
	return y
}

// GatedMLP is down(x·act(gate)). With Gate nil, Up gives both halves: x, then gate.
type GatedMLP struct {
	Up, Gate, Down *Linear
	Act            kernels.UnaryOp
}

// Apply computes the layer; o is the epilogue of the last product.
func (m *GatedMLP) Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	var h, gate *autograd.Value
	wide := m.Up.Apply(tp, x, autograd.With{})
	if m.Gate == nil {
		halves := tp.Chunk(wide, 2)
		h, gate = halves[0], halves[1]
	} else {
		h, gate = wide, m.Gate.Apply(tp, x, autograd.With{})
	}
	g := tp.GLU(m.Act, h, gate)
	tp.Release(wide, h, gate)
	y := m.Down.Apply(tp, g, o)
	tp.Release(g)
	return y
}

// Attention is one stream's attention, to itself or to a context. Its norms, of each
// head's queries and keys, may be nil.
type Attention struct {
	Q, K, V, Out *Linear
	NormQ, NormK *Norm
	Heads        int
}

// Attention asks for to_q, to_k, to_v and to_out.0 below name, as diffusers calls them.
func (p *Params) Attention(name string, width, context, heads, dim int, bias bool) *Attention {
	s := p.Sub(name)
	return &Attention{Heads: heads, Q: s.Linear("to_q", width, heads*dim, bias), K: s.Linear("to_k", context, heads*dim, bias),
		V: s.Linear("to_v", context, heads*dim, bias), Out: s.Linear("to_out.0", heads*dim, width, true)}
}

// QKV is the three operands of attention: queries of x, keys and values of context.
func (a *Attention) QKV(tp *autograd.Tape, x, context *autograd.Value) (q, k, v *autograd.Value) {
	q = a.NormQ.Heads(tp, a.Q.Apply(tp, x, autograd.With{}), a.Heads)
	k = a.NormK.Heads(tp, a.K.Apply(tp, context, autograd.With{}), a.Heads)
	return q, k, a.V.Apply(tp, context, autograd.With{})
}

// Apply attends from x to context; at says how, but for the heads, and o is the epilogue
// of the last product.
func (a *Attention) Apply(tp *autograd.Tape, x, context *autograd.Value, at autograd.Attend, o autograd.With) *autograd.Value {
	q, k, v := a.QKV(tp, x, context)
	at.Heads = a.Heads
	h := tp.Attention(q, k, v, at)
	tp.Release(q, k, v)
	y := a.Out.Apply(tp, h, o)
	tp.Release(h)
	return y
}
