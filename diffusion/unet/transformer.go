package unet

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A picture attends to itself and to text (Transformer2DModel): with tokens t = in(norm(x)),
// layers t += attn1(norm1(t)), t += attn2(norm2(t), text), t += geglu(norm3(t)), then
// x + out(t).
type transformer struct {
	norm    *nn.GroupNorm
	in, out *nn.Linear // without use_linear_projection the disk has them as convolutions of 1x1
	layers  []*layer
}

type layer struct {
	norm1, norm2, norm3 *nn.Norm
	own, text           *nn.Attention
	mlp                 *nn.GatedMLP
}

func newTransformer(p *nn.Params, c Config, width, heads, depth int) *transformer {
	project := p.Pointwise
	if c.Linear {
		project = p.Linear
	}
	t := &transformer{norm: p.GroupNorm("norm", width, c.Groups, 1e-6), in: project("proj_in", width, width, true)}
	for i := range depth {
		b := p.At("transformer_blocks", i)
		t.layers = append(t.layers, &layer{
			norm1: b.LayerNorm("norm1", width, 1e-5), norm2: b.LayerNorm("norm2", width, 1e-5), norm3: b.LayerNorm("norm3", width, 1e-5),
			own: b.Attention("attn1", width, width, heads, width/heads, false), text: b.Attention("attn2", width, c.Context, heads, width/heads, false),
			mlp: &nn.GatedMLP{Up: b.Linear("ff.net.0.proj", width, 8*width, true), Down: b.Linear("ff.net.2", 4*width, width, true), Act: kernels.GELUErf}})
	}
	t.out = project("proj_out", width, width, true)
	return t
}

func (t *transformer) apply(tp *autograd.Tape, x, text *autograd.Value) *autograd.Value {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	n := t.norm.Apply(tp, x, kernels.Identity)
	y := t.in.Apply(tp, tp.Reshape(n, b, h*w, c), autograd.With{})
	for _, l := range t.layers {
		y = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			return []*autograd.Value{l.apply(tp, in[0], in[1])}
		}, y, text)[0]
	}
	z := t.out.Apply(tp, y, autograd.With{Residual: tp.Reshape(x, b, h*w, c)})
	return tp.Reshape(z, b, h, w, c)
}

func (l *layer) apply(tp *autograd.Tape, x, text *autograd.Value) *autograd.Value {
	h := l.norm1.Apply(tp, x)
	y := l.own.Apply(tp, h, h, autograd.Attend{}, autograd.With{Residual: x})
	g := l.norm2.Apply(tp, y)
	z := l.text.Apply(tp, g, text, autograd.Attend{}, autograd.With{Residual: y})
	f := l.norm3.Apply(tp, z)
	out := l.mlp.Apply(tp, f, autograd.With{Residual: z})
	tp.Release(h, y, g, z, f)
	return out
}
