package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Linear is y = x Wᵀ + b, and an adapter where one was added.
type Linear struct {
	Name string
	W, B *autograd.Param
	lora *adapter
}

// Linear asks for name.weight [out, in], and name.bias [out].
func (p *Params) Linear(name string, in, out int, bias bool) *Linear {
	return p.linear(name, bias, out, in)
}

// Pointwise is Linear that the disk has as a convolution of 1x1: name.weight [out, in, 1, 1].
func (p *Params) Pointwise(name string, in, out int, bias bool) *Linear {
	return p.linear(name, bias, out, in, 1, 1)
}

// linear asks for a layer that an adapter can sit on, by the shape of its weight on the disk.
func (p *Params) linear(name string, bias bool, stored ...int) *Linear {
	out, in := stored[0], stored[1]
	l := &Linear{Name: p.name(name), W: p.get(name+".weight", matrix, fanIn(in), kernels.ConvShape{}, stored...)}
	if bias {
		l.B = p.get(name+".bias", vector, fanIn(in), kernels.ConvShape{}, out)
	}
	p.root.modules = append(p.root.modules, module{name: l.Name, linear: l})
	return l
}

// Patches asks for name.weight [out, in...], and name.bias: a convolution whose kernel meets
// every element once, as a product with patches that lie in rows.
func (p *Params) Patches(name string, out int, bias bool, in ...int) *Linear {
	n := product(in)
	l := &Linear{Name: p.name(name), W: p.get(name+".weight", matrix, fanIn(n), kernels.ConvShape{}, append([]int{out}, in...)...)}
	if bias {
		l.B = p.get(name+".bias", vector, fanIn(n), kernels.ConvShape{}, out)
	}
	return l
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Stored is a linear layer whose tensors are not name.weight and name.bias.
type Stored struct {
	Weight, Bias string // full names; Bias "" for none
	In, Out      int
	Right        bool // the weight is [In, Out]: it was multiplied from the right, x W
}

// LinearAs asks for a linear layer by the names of its tensors. Adapters do not sit on it.
func (p *Params) LinearAs(s Stored) *Linear {
	l := &Linear{Name: p.name(s.Weight)}
	if s.Right {
		l.W = p.get(s.Weight, turned, fanIn(s.In), kernels.ConvShape{}, s.In, s.Out)
	} else {
		l.W = p.get(s.Weight, matrix, fanIn(s.In), kernels.ConvShape{}, s.Out, s.In)
	}
	if s.Bias != "" {
		l.B = p.get(s.Bias, vector, fanIn(s.In), kernels.ConvShape{}, s.Out)
	}
	return l
}

// Apply computes the layer; o.Bias is the layer's own.
func (l *Linear) Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	o.Bias = l.B
	if l.lora.active() {
		return l.lora.linear(tp, l, x, o)
	}
	return tp.Linear(x, l.W, o)
}

// Plain says that the layer is its product alone: no bias, and no adapter that is on.
func (l *Linear) Plain() bool { return l.B == nil && !l.lora.active() }

// Conv is a convolution over NHWC pictures, and an adapter where one was added.
type Conv struct {
	Name string
	W, B *autograd.Param
	lora *adapter
}

// Conv asks for name.weight [out, in, KH, KW] and name.bias.
func (p *Params) Conv(name string, s kernels.ConvShape, bias bool) *Conv {
	in := fanIn(s.In * s.KH * s.KW)
	c := &Conv{Name: p.name(name), W: p.get(name+".weight", matrix, in, s, s.Out, s.In, s.KH, s.KW)}
	if bias {
		c.B = p.get(name+".bias", vector, in, kernels.ConvShape{}, s.Out)
	}
	p.root.modules = append(p.root.modules, module{name: c.Name, conv: c})
	return c
}

// Square is the geometry of a kernel x kernel convolution that is padded on all sides.
func Square(in, out, kernel, stride, pad int) kernels.ConvShape {
	return kernels.ConvShape{In: in, Out: out, KH: kernel, KW: kernel, Stride: stride, Top: pad, Left: pad, Bottom: pad, Right: pad}
}

// Apply computes the layer, plus residual (nil for none).
func (c *Conv) Apply(tp *autograd.Tape, x, residual *autograd.Value) *autograd.Value {
	return c.with(tp, x, autograd.ConvWith{Residual: residual})
}

// ApplyWide computes the layer as F32, whatever the type of activations: a network's last.
func (c *Conv) ApplyWide(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return c.with(tp, x, autograd.ConvWith{Wide: true})
}

func (c *Conv) with(tp *autograd.Tape, x *autograd.Value, o autograd.ConvWith) *autograd.Value {
	o.Bias = c.B
	if c.lora.active() {
		return c.lora.conv(tp, c, x, o)
	}
	return tp.Conv(x, c.W, o)
}

// Norm is a layer norm or RMS norm over the last axis.
type Norm struct {
	Kind         kernels.NormKind
	Weight, Bias *autograd.Param
	Eps          float32
	LessOne      bool // the stored weight lacks 1
}

// LayerNorm asks for name.weight and name.bias [n].
func (p *Params) LayerNorm(name string, n int, eps float32) *Norm {
	one := initial{value: 1}
	return &Norm{Kind: kernels.LayerNorm, Weight: p.get(name+".weight", vector, one, kernels.ConvShape{}, n),
		Bias: p.get(name+".bias", vector, initial{}, kernels.ConvShape{}, n), Eps: eps}
}

// RMSNorm asks for name.weight [n].
func (p *Params) RMSNorm(name string, n int, eps float32) *Norm {
	return &Norm{Kind: kernels.RMSNorm, Weight: p.get(name+".weight", vector, initial{value: 1}, kernels.ConvShape{}, n), Eps: eps}
}

// PlainNorm has no parameters: the modulated norms of transformers normalise with it.
func PlainNorm(kind kernels.NormKind, eps float32) *Norm { return &Norm{Kind: kind, Eps: eps} }

// Apply normalises every row.
func (n *Norm) Apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return n.Modulated(tp, x, nil, nil)
}

// Modulated normalises, times (1 + scale), plus shift: one row of each a sample.
func (n *Norm) Modulated(tp *autograd.Tape, x, scale, shift *autograd.Value) *autograd.Value {
	if n.LessOne {
		if scale != nil || n.Bias != nil {
			panic("nn: a norm whose weight lacks 1 has no bias and no modulation")
		}
		zeros := tp.Pool().Zeros(kernels.F32, 1, n.Weight.Shape[0])
		defer zeros.Free()
		return tp.Norm(x, autograd.NormWith{Kind: n.Kind, Scale: tp.AddParam(tp.Input(zeros), n.Weight), Eps: n.Eps})
	}
	return tp.Norm(x, autograd.NormWith{Kind: n.Kind, Weight: n.Weight, Bias: n.Bias, Scale: scale, Shift: shift, Eps: n.Eps})
}

// Heads normalises each head of x [B, S, heads·D] alone. A nil norm changes nothing.
func (n *Norm) Heads(tp *autograd.Tape, x *autograd.Value, heads int) *autograd.Value {
	if n == nil {
		return x
	}
	b, s, c := x.Dim(0), x.Dim(1), x.Dim(2)
	split := tp.Reshape(x, b, s, heads, c/heads)
	y := n.Apply(tp, split)
	z := tp.Reshape(y, b, s, c)
	tp.Release(split, y)
	return z
}

// GroupNorm normalises groups of channels of a picture.
type GroupNorm struct {
	Groups       int
	Weight, Bias *autograd.Param
	Eps          float32
}

// GroupNorm asks for name.weight and name.bias [channels].
func (p *Params) GroupNorm(name string, channels, groups int, eps float32) *GroupNorm {
	return &GroupNorm{Groups: groups, Eps: eps, Weight: p.get(name+".weight", vector, initial{value: 1}, kernels.ConvShape{}, channels),
		Bias: p.get(name+".bias", vector, initial{}, kernels.ConvShape{}, channels)}
}

// Apply normalises, and applies act (Identity or SiLU).
func (n *GroupNorm) Apply(tp *autograd.Tape, x *autograd.Value, act kernels.UnaryOp) *autograd.Value {
	return tp.GroupNorm(x, autograd.GroupNormWith{Groups: n.Groups, Weight: n.Weight, Bias: n.Bias, Eps: n.Eps, Act: act})
}

// Embedding asks for name.weight [rows, cols], for Tape.Embedding.
func (p *Params) Embedding(name string, rows, cols int) *autograd.Param {
	return p.get(name+".weight", table, initial{sigma: 1}, kernels.ConvShape{}, rows, cols)
}

// Vector asks for a parameter by its full name: a scale, a position, a query token.
func (p *Params) Vector(name string, shape ...int) *autograd.Param {
	return p.get(name, vector, initial{sigma: 0.02}, kernels.ConvShape{}, shape...)
}

// Doubled is a 3x3 convolution of a picture that was doubled: autoencoders enlarge pictures with it. Frozen, it is
// four convolutions of the small picture (autograd.DoubledConv); trained, it is the enlargement and one convolution.
type Doubled struct {
	whole  *Conv
	bias   *autograd.Param
	phases [4]*autograd.Param
}

// Doubled asks for name.weight [out, in, 3, 3] and name.bias. No adapter can sit on a frozen
// one.
func (p *Params) Doubled(name string, in, out int) *Doubled {
	s := Square(in, out, 3, 1, 1)
	r, full := p.root, p.name(name)
	if r.trains(full+".weight") || r.trains(full+".bias") {
		return &Doubled{whole: p.Conv(name, s, true)}
	}
	d, init := &Doubled{}, fanIn(in*9)
	e, src := p.stored(name+".weight", false, init, out, in, 3, 3)
	if e == nil {
		return d
	}
	var w []float32
	var err error
	if !r.Pool.Dry() {
		w, err = src.Float32(nil)
	}
	if err != nil {
		p.fail(err)
		return d
	}
	for i := range d.phases {
		phase := autograd.PhaseShape(s, i/2, i%2)
		of := &entry{name: fmt.Sprintf("%s.weight of pixels %d, %d", full, i/2, i%2), stored: []int{out, in, 2, 2}, derived: true}
		if of.param, err = r.make(of, r.made(of.name, of.stored, func() []float32 { return taps(w, i/2, i%2) }), matrix, phase, false); err != nil {
			p.fail(fmt.Errorf("%s: %w", e.name, err))
			return d
		}
		d.phases[i] = of.param
		r.fixed = append(r.fixed, of.param)
	}
	if s, ok := r.Source.(interface{ Drop(string) }); ok {
		s.Drop(e.name)
	}
	d.bias = p.get(name+".bias", vector, init, kernels.ConvShape{}, out)
	return d
}

// taps are the sums of a weight's nine that pixels of one parity read four of.
func taps(w []float32, py, px int) []float32 {
	sums := make([]float32, len(w)/9*4)
	for k := range len(w) / 9 {
		for dy := range 3 {
			for dx := range 3 {
				// Tap dy of an even row is of the pixel before, itself and itself; of an odd row
				// itself, itself and the pixel after.
				sums[k*4+(dy+1-py)/2*2+(dx+1-px)/2] += w[k*9+dy*3+dx]
			}
		}
	}
	return sums
}

// Apply doubles x and convolves it.
func (d *Doubled) Apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if d.whole == nil {
		return tp.DoubledConv(x, d.phases, d.bias)
	}
	big := tp.Upsample(x, 2)
	defer tp.Release(big)
	return d.whole.Apply(tp, big, nil)
}

// FrameConv is a convolution over time and space, of frames [F, H, W, In]. It pads nothing in time
// (autograd.ConvFrames).
type FrameConv struct {
	Name   string
	Frames int // of the kernel
	Stride int // in time
	W, B   *autograd.Param
}

// FrameConv asks for name.weight [out, in, frames, KH, KW] and name.bias; s is the geometry of each
// frame. No adapter can sit on it.
func (p *Params) FrameConv(name string, s kernels.ConvShape, frames, stride int) *FrameConv {
	in := fanIn(s.In * s.KH * s.KW * frames)
	return &FrameConv{Name: p.name(name), Frames: frames, Stride: stride,
		W: p.getFrames(name+".weight", matrix, in, s, frames, s.Out, s.In, frames, s.KH, s.KW),
		B: p.get(name+".bias", vector, in, kernels.ConvShape{}, s.Out)}
}

// Apply computes the layer, plus residual (nil for none).
func (c *FrameConv) Apply(tp *autograd.Tape, x, residual *autograd.Value) *autograd.Value {
	return tp.ConvFrames(x, c.W, c.Stride, autograd.ConvWith{Bias: c.B, Residual: residual})
}

// ApplyWide computes the layer as F32, whatever the type of activations: a network's last.
func (c *FrameConv) ApplyWide(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.ConvFrames(x, c.W, c.Stride, autograd.ConvWith{Bias: c.B, Wide: true})
}

// ConvOfFrames asks for name.weight [out, in/frames, frames, KH, KW] and name.bias: a convolution that reads some
// frames at once and goes on by as many is one of pictures that have all their channels, channel by channel.
func (p *Params) ConvOfFrames(name string, s kernels.ConvShape, frames int) *Conv {
	in := fanIn(s.In * s.KH * s.KW)
	return &Conv{Name: p.name(name), W: p.get(name+".weight", matrix, in, s, s.Out, s.In/frames, frames, s.KH, s.KW),
		B: p.get(name+".bias", vector, in, kernels.ConvShape{}, s.Out)}
}

// ConvOfFrame asks for name.weight [out, in, 1, KH, KW] and name.bias: a convolution over time and
// space whose kernel has one frame is one of pictures, the frames.
func (p *Params) ConvOfFrame(name string, s kernels.ConvShape) *Conv {
	return p.ConvOfFrames(name, s, 1)
}

// RMSNormAs asks for an RMS norm's weight by its full name and the shape on the disk.
func (p *Params) RMSNormAs(name string, eps float32, shape ...int) *Norm {
	return &Norm{Kind: kernels.RMSNorm, Weight: p.get(name, vector, initial{value: 1}, kernels.ConvShape{}, shape...), Eps: eps}
}

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
