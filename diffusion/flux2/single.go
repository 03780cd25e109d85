package flux2

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A layer of one stream over text and picture together, attention beside the MLP, both from one product
// and into one:
//
//	x̂ = norm(x)·(1+c) + s;  q, k, v, up = in(x̂)
//	x += g · out([attention(q, k, v), swiglu(up)])
type single struct {
	in, out      *nn.Linear
	normQ, normK *nn.Norm
	norm         *nn.Norm
	heads        int
	width, inner int
}

func newSingle(p *nn.Params, c Config) *single {
	w, attn := c.Width(), p.Sub("attn")
	return &single{heads: c.Heads, width: w, inner: c.Inner(), norm: nn.PlainNorm(kernels.LayerNorm, c.Eps),
		in: attn.Linear("to_qkv_mlp_proj", w, 3*w+2*c.Inner(), false), out: attn.Linear("to_out", w+c.Inner(), w, false),
		normQ: attn.RMSNorm("norm_q", c.HeadDim, c.Eps), normK: attn.RMSNorm("norm_k", c.HeadDim, c.Eps)}
}

func (s *single) forward(tp *autograd.Tape, x, by *autograd.Value, turn turning) *autograd.Value {
	m := tp.Chunk(by, 3)
	h := s.norm.Modulated(tp, x, m[1], m[0])
	all := s.in.Apply(tp, h, autograd.With{})
	tp.Release(h)
	parts := tp.Split(all, 2, s.width, s.width, s.width, 2*s.inner)
	a := attend(tp, s.heads, turn, s.normQ.Heads(tp, parts[0], s.heads), s.normK.Heads(tp, parts[1], s.heads), parts[2])
	up := swiglu(tp, parts[3])
	both := tp.Concat(2, a, up)
	tp.Release(all, a, up)
	y := s.out.Apply(tp, both, autograd.With{Gate: m[2], Residual: x})
	tp.Release(both)
	return y
}
