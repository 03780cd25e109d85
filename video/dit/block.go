package dit

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// One layer. With s, c, g the shifts, scales and gates that m + table gives:
//
//	x += g₁·out(attention of norm(x)·(1+c₁) + s₁ to itself, turned by places)
//	x += out(attention of norm(x) to the words + the same queries' attention to the picture)
//	x += g₂·mlp(norm(x)·(1+c₂) + s₂)
//
// Queries and keys are normalised over all heads together, before they are parted into heads.
type block struct {
	table       *autograd.Param // [1, 6, width]
	self, cross *attention
	plain       *nn.Norm
	between     *nn.Norm // before the words; nil: none
	mlp         *nn.MLP
}

// attention has norms over all heads, and keys and values of a picture besides, where it reads one.
type attention struct {
	heads              int
	q, k, v, out       *nn.Linear
	normQ, normK       *nn.Norm
	pictureK, pictureV *nn.Linear
	normPicture        *nn.Norm // nil: no picture is read
}

func newAttention(p *nn.Params, c Config, picture bool) *attention {
	w := c.Width()
	a := &attention{heads: c.Heads, q: p.Linear("to_q", w, w, true), k: p.Linear("to_k", w, w, true), v: p.Linear("to_v", w, w, true),
		out: p.Linear("to_out.0", w, w, true), normQ: p.RMSNorm("norm_q", w, c.Eps), normK: p.RMSNorm("norm_k", w, c.Eps)}
	if picture {
		a.pictureK, a.pictureV = p.Linear("add_k_proj", c.Added, w, true), p.Linear("add_v_proj", c.Added, w, true)
		a.normPicture = p.RMSNorm("norm_added_k", w, c.Eps)
		p.Ignore(`norm_added_q\.weight`) // some folders have it, and nobody reads it
	}
	return a
}

// normed is norm(linear(x)).
func normed(tp *autograd.Tape, x *autograd.Value, l *nn.Linear, n *nn.Norm) *autograd.Value {
	y := l.Apply(tp, x, autograd.With{})
	z := n.Apply(tp, y)
	tp.Release(y)
	return z
}

// toItself is attention between tokens that turn, all of them together.
func (a *attention) toItself(tp *autograd.Tape, x *autograd.Value, all int, turn func(*autograd.Value) *autograd.Value) *autograd.Value {
	q := tp.ToHeads(normed(tp, x, a.q, a.normQ), a.heads, all)
	k := tp.ToHeads(normed(tp, x, a.k, a.normK), a.heads, all)
	tq, tk := turn(q), turn(k)
	tp.Release(q, k)
	v := tp.ToHeads(a.v.Apply(tp, x, autograd.With{}), a.heads, all)
	o := tp.Attention(tq, tk, v, autograd.Attend{Heads: tp.HeadsHere(a.heads)})
	tp.Release(tq, tk, v)
	return tp.ToTokens(o, a.heads, all)
}

// toContext is attention to words, plus that to a picture, where there is one.
func (a *attention) toContext(tp *autograd.Tape, x, words, picture *autograd.Value) *autograd.Value {
	q := normed(tp, x, a.q, a.normQ)
	to := func(context *autograd.Value, k, v *nn.Linear, norm *nn.Norm) *autograd.Value {
		keys, values := normed(tp, context, k, norm), v.Apply(tp, context, autograd.With{})
		o := tp.Attention(q, keys, values, autograd.Attend{Heads: a.heads})
		tp.Release(keys, values)
		return o
	}
	o := to(words, a.k, a.v, a.normK)
	if a.normPicture != nil {
		seen := to(picture, a.pictureK, a.pictureV, a.normPicture)
		both := tp.Add(o, seen)
		tp.Release(o, seen)
		o = both
	}
	tp.Release(q)
	return o
}

func newBlock(p *nn.Params, c Config) *block {
	w := c.Width()
	b := &block{table: p.Vector("scale_shift_table", 1, 6, w), plain: nn.PlainNorm(kernels.LayerNorm, c.Eps),
		self: newAttention(p.Sub("attn1"), c, false), cross: newAttention(p.Sub("attn2"), c, c.Image > 0),
		mlp: &nn.MLP{Up: p.Linear("ffn.net.0.proj", w, c.Inner, true), Down: p.Linear("ffn.net.2", c.Inner, w, true), Act: kernels.GELUTanh}}
	if c.CrossNorm {
		b.between = p.LayerNorm("norm2", w, c.Eps)
	}
	return b
}

// forward takes tokens x [B, S, width], of a clip with all, words, features of a picture (nil without one) and m.
func (b *block) forward(tp *autograd.Tape, x, words, picture, m *autograd.Value, all int, turn func(*autograd.Value) *autograd.Value) *autograd.Value {
	by := tp.Chunk(tp.AddParam(m, b.table), 6)
	h := b.plain.Modulated(tp, x, by[1], by[0])
	a := b.self.toItself(tp, h, all, turn)
	y := b.self.out.Apply(tp, a, autograd.With{Gate: by[2], Residual: x})
	tp.Release(h, a)
	if h = y; b.between != nil {
		h = b.between.Apply(tp, y)
	}
	a = b.cross.toContext(tp, h, words, picture)
	z := b.cross.out.Apply(tp, a, autograd.With{Residual: y})
	tp.Release(h, a, y)
	h = b.plain.Modulated(tp, z, by[4], by[3])
	out := b.mlp.Apply(tp, h, autograd.With{Gate: by[5], Residual: z})
	tp.Release(h, z)
	return out
}

// Places of tokens turn queries and keys: a head is parted into frames, rows and columns, the last
// two of n = 2·floor(dim/6) numbers each, the first of the rest, and for each axis
//
//	angle[i] = place / 10000^(2i/n), i = 0 ... n/2-1
//
// turns the elements 2i and 2i+1 of its part. Angles are float64, their cosines and sines fp32, as
// upstream computes them. Before diffusers 0.36 the parts were dim/3 each: the same for published
// sizes.

// axes are the numbers of a head that each axis turns.
func (c Config) axes() [3]int {
	side := 2 * (c.HeadDim / 6)
	return [3]int{c.HeadDim - 2*side, side, side}
}

// rotations are the cosines and sines [t·h·w, HeadDim/2] of a grid of tokens.
func (c Config) rotations(t, h, w int) (cos, sin []float32) {
	var tables [3][2][][]float32
	for axis, n := range c.axes() {
		for place := range [3]int{t, h, w}[axis] {
			co, si := make([]float32, n/2), make([]float32, n/2)
			for i := range co {
				s, c := nn.Sincos(float64(place) * nn.Exp(-math.Ln10*4*float64(2*i)/float64(n)))
				co[i], si[i] = float32(c), float32(s)
			}
			tables[axis][0], tables[axis][1] = append(tables[axis][0], co), append(tables[axis][1], si)
		}
	}
	join := func(part int) []float32 {
		all := make([]float32, 0, t*h*w*c.HeadDim/2)
		for i := range t * h * w {
			for axis, place := range [3]int{i / (h * w), i / w % h, i % w} {
				all = append(all, tables[axis][part][place]...)
			}
		}
		return all
	}
	return join(0), join(1)
}

// turn rotates queries or keys of a grid of tokens.
func (m *Model) turn(tp *autograd.Tape, t, h, w int) func(*autograd.Value) *autograd.Value {
	cos, sin := m.rotations(t, h, w)
	upload := func(x []float32) *autograd.Value {
		u := tp.Pool().FromF32(kernels.F32, x, t*h*w, m.HeadDim/2)
		defer u.Free()
		return tp.Input(u)
	}
	c, s := upload(cos), upload(sin)
	return func(x *autograd.Value) *autograd.Value {
		return tp.Rope(x, tp.HeadsHere(m.Heads), c, s, kernels.RopeInterleaved)
	}
}
