package flux2

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A layer of two streams, whose shifts, scales and gates are the same in all of them:
//
//	x̂ = norm(x)·(1+c₁) + s₁            for both streams
//	a = attention over both, text first
//	x += g₁·out(a)
//	x += g₂·mlp(norm(x)·(1+c₂) + s₂)
//
// mlp(x) is down(silu(first half of up(x)) · second half). No layer has a bias.
type double struct {
	image, text stream
	heads       int
}

type stream struct {
	attention *nn.Attention
	mlp       gated
	norm      *nn.Norm
}

func newDouble(p *nn.Params, c Config) *double {
	attn := p.Sub("attn")
	of := func(q, k, v, out, normQ, normK, mlp string) stream {
		w := c.Width()
		return stream{norm: nn.PlainNorm(kernels.LayerNorm, c.Eps), mlp: newGated(p.Sub(mlp), c),
			attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear(q, w, w, false), K: attn.Linear(k, w, w, false), V: attn.Linear(v, w, w, false),
				Out: attn.Linear(out, w, w, false), NormQ: attn.RMSNorm(normQ, c.HeadDim, c.Eps), NormK: attn.RMSNorm(normK, c.HeadDim, c.Eps)}}
	}
	return &double{heads: c.Heads, image: of("to_q", "to_k", "to_v", "to_out.0", "norm_q", "norm_k", "ff"),
		text: of("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "norm_added_q", "norm_added_k", "ff_context")}
}

// forward takes tokens of both streams, and the shifts, scales and gates of each, six to a row.
func (d *double) forward(tp *autograd.Tape, x, text, byX, byText *autograd.Value, turn turning) (*autograd.Value, *autograd.Value) {
	mx, mt := tp.Chunk(byX, 6), tp.Chunk(byText, 6)
	hx, ht := d.image.norm.Modulated(tp, x, mx[1], mx[0]), d.text.norm.Modulated(tp, text, mt[1], mt[0])
	q, k, v := d.image.attention.QKV(tp, hx, hx)
	tq, tk, tv := d.text.attention.QKV(tp, ht, ht)
	a := attend(tp, d.heads, turn, tp.Concat(1, tq, q), tp.Concat(1, tk, k), tp.Concat(1, tv, v))
	tp.Release(hx, ht, q, k, v, tq, tk, tv)
	halves := tp.Split(a, 1, text.Dim(1), x.Dim(1))
	tp.Release(a)
	return d.image.finish(tp, x, halves[1], mx), d.text.finish(tp, text, halves[0], mt)
}

// finish is what follows a stream's attention a.
func (s stream) finish(tp *autograd.Tape, x, a *autograd.Value, by []*autograd.Value) *autograd.Value {
	y := s.attention.Out.Apply(tp, a, autograd.With{Gate: by[2], Residual: x})
	h := s.norm.Modulated(tp, y, by[4], by[3])
	z := s.mlp.apply(tp, h, autograd.With{Gate: by[5], Residual: y})
	tp.Release(h, y)
	return z
}

// turning rotates queries or keys.
type turning = func(*autograd.Value) *autograd.Value

// attend turns queries and keys, and is their attention.
func attend(tp *autograd.Tape, heads int, turn turning, q, k, v *autograd.Value) *autograd.Value {
	tq, tk := turn(q), turn(k)
	tp.Release(q, k)
	a := tp.Attention(tq, tk, v, autograd.Attend{Heads: heads})
	tp.Release(tq, tk, v)
	return a
}

// gated is an MLP.
type gated struct{ up, down *nn.Linear }

func newGated(p *nn.Params, c Config) gated {
	return gated{up: p.Linear("linear_in", c.Width(), 2*c.Inner(), false), down: p.Linear("linear_out", c.Inner(), c.Width(), false)}
}

func (g gated) apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	up := g.up.Apply(tp, x, autograd.With{})
	h := swiglu(tp, up)
	y := g.down.Apply(tp, h, o)
	tp.Release(up, h)
	return y
}

// swiglu is silu(first half) · second half.
func swiglu(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	halves := tp.Chunk(x, 2)
	return tp.GLU(kernels.SiLU, halves[1], halves[0])
}
