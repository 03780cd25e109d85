package nn

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// What an adapter does to its layer's output (lora.go).

// put makes the layer use the adapter.
func (ad *adapter) put() {
	switch m := ad.module; {
	case m.conv != nil:
		m.conv.lora = ad
	case m.experts != nil:
		m.experts.lora = ad
	default:
		m.linear.lora = ad
	}
	r := ad.set.root
	for _, e := range []*entry{ad.a, ad.b} {
		r.entries[e.name] = e
		r.order = append(r.order, e)
	}
}

func (ad *adapter) active() bool { return ad != nil && ad.set.On && !ad.set.merged }

// linear is the layer with its adapter.
func (ad *adapter) linear(tp *autograd.Tape, l *Linear, x *autograd.Value, o autograd.With) *autograd.Value {
	alpha := ad.scale
	if o.Alpha != 0 {
		alpha *= o.Alpha
	}
	last := o
	if o.Act != kernels.Identity {
		o.Gate, o.Residual, o.Act, o.Wide = nil, nil, kernels.Identity, true
		o.Leave() // what follows the activation is made elsewhere
		o.Place = autograd.Place{}
	}
	y := tp.Adapted(x, l.W, autograd.LowRank{A: ad.a.param, B: ad.b.param, Scale: alpha, X: ad.drop(tp, x)}, o)
	if last.Act == kernels.Identity {
		return y
	}
	return finish(tp, y, last)
}

// finish is what follows the sum where there is an activation.
func finish(tp *autograd.Tape, y *autograd.Value, o autograd.With) *autograd.Value {
	z := tp.Unary(o.Act, y)
	tp.Release(y)
	switch {
	case o.Gate != nil && o.Residual != nil:
		return tp.Gated(z, o.Gate, o.Residual)
	case o.Residual != nil:
		return tp.Add(z, o.Residual)
	case o.Gate != nil || o.Wide:
		panic("nn: a layer with an adapter and an activation has no gate of its own, nor an f32 result")
	}
	return z
}

// conv is the layer with its adapter: A has the layer's kernel, B is 1x1.
func (ad *adapter) conv(tp *autograd.Tape, c *Conv, x *autograd.Value, o autograd.ConvWith) *autograd.Value {
	h := tp.Conv(ad.drop(tp, x), ad.a.param, autograd.ConvWith{})
	o.Residual = tp.Linear(h, ad.b.param, autograd.With{Alpha: ad.scale, Residual: o.Residual, Wide: true})
	y := tp.Conv(x, c.W, o)
	tp.Release(h, o.Residual)
	return y
}

func (ad *adapter) drop(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Dropout(x, ad.dropout, rng.Purpose(ad.module.name))
}
