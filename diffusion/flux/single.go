package flux

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A layer of one stream over text and picture together, attention beside the MLP:
//
//	x̂ = norm(x)·(1+c) + s
//	x += g · out([attention(x̂), gelu(up(x̂))])
type single struct {
	modulation *nn.Linear
	attention  *nn.Attention
	up, out    *nn.Linear
	norm       *nn.Norm
}

func newSingle(p *nn.Params, c Config) *single {
	w, attn := c.Width(), p.Sub("attn")
	return &single{
		modulation: p.Linear("norm.linear", w, 3*w, true),
		attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear("to_q", w, w, true), K: attn.Linear("to_k", w, w, true), V: attn.Linear("to_v", w, w, true),
			NormQ: attn.RMSNorm("norm_q", c.HeadDim, 1e-6), NormK: attn.RMSNorm("norm_k", c.HeadDim, 1e-6)},
		up: p.Linear("proj_mlp", w, 4*w, true), out: p.Linear("proj_out", 5*w, w, true), norm: nn.PlainNorm(kernels.LayerNorm, 1e-6),
	}
}

func (s *single) forward(tp *autograd.Tape, x, condition *autograd.Value, turn func(*autograd.Value) *autograd.Value) *autograd.Value {
	m := tp.Chunk(s.modulation.Apply(tp, condition, autograd.With{}), 3)
	h := s.norm.Modulated(tp, x, m[1], m[0])
	q, k, v := s.attention.QKV(tp, h, h)
	tq, tk := turn(q), turn(k)
	tp.Release(q, k)
	places := tp.Places(h, h.Dim(-1), 4*h.Dim(-1))
	a := tp.Attention(tq, tk, v, autograd.Attend{Heads: s.attention.Heads, Place: places[0]})
	tp.Release(tq, tk, v)
	up := s.up.Apply(tp, h, autograd.With{Act: kernels.GELUTanh, Place: places[1]})
	both := tp.Concat(2, a, up)
	tp.Release(h, a, up)
	y := s.out.Apply(tp, both, autograd.With{Gate: m[2], Residual: x})
	tp.Release(both)
	return y
}
