package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Adapted: a linear layer with a low-rank pair, y = residual + gate · (alpha · x Wᵀ + s · h Bᵀ + bias), h = x' Aᵀ, by
// one product with a pair (kernels.Pair).
//
//	d = dy · gate    dgate = sum of dy · (y before gate) over a sample    dbias = sum of d
//	dB = s · dᵀ h    dh = s · d B    dA = dhᵀ x'    dx = alpha · d W, then + dh A where x' is x
//
// Invariant (tests): on backends with the bits of package ref, values and gradients are those of the three layers that
// it is: h, then s · h Bᵀ, which is the residual of the third.

// LowRank is a pair of factors, A [r, in] and B [out, r].
type LowRank struct {
	A, B  *Param
	Scale float32 // s; 0 means 1
	X     *Value  // x': what A reads, x itself or x after dropout
}

// Adapted is the product with a weight [out, in], and with a pair. There is no activation.
func (tp *Tape) Adapted(x *Value, w *Param, p LowRank, o With) *Value {
	r := p.A.Shape[0]
	if len(w.Shape) != 2 || x.t.Cols() != w.Shape[1] || p.X.t.Cols() != p.A.Value.Len()/r || p.B.Shape[0] != w.Shape[0] || p.B.Value.Len() != r*p.B.Shape[0] {
		panic(fmt.Sprintf("autograd: Adapted of %v with %s %v, %s %v and %s %v", x.t, w.Name, w.Shape, p.A.Name, p.A.Shape, p.B.Name, p.B.Shape))
	}
	if o.Act != kernels.Identity {
		panic("autograd: Adapted " + w.Name + " has no activation of its own")
	}
	h := tp.pool.New(tp.DType, widen(x.Shape(), r)...).Named(p.A.Name)
	a, packedA := tp.operand(p.A)
	tp.be.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: tp.Math, A: p.X.t.Mat(), B: a, W: packedA, C: h.Mat()})

	y := tp.result(w.Name, o.take(tp, tp.outType(o.Wide), widen(x.Shape(), w.Shape[0])...), x, p.X, o.Gate, o.Residual).needsParam(w, o.Bias, p.A, p.B)
	weight, packed := tp.operand(w)
	b, packedB := tp.operand(p.B)
	pair := &kernels.Pair{A: h.Mat(), B: b, W: packedB, Alpha: p.Scale}
	g := &kernels.Gemm{Layout: kernels.NT, Math: tp.Math, A: x.t.Mat(), B: weight, W: packed, C: y.t.Mat(),
		Alpha: o.Alpha, Bias: o.Bias.span(), Gate: mat(o.Gate), Residual: mat(o.Residual), Pair: pair}
	if o.Gate != nil {
		g.GateRows = rowsPer("Adapted", y, o.Gate)
	}
	n := tp.record(y)
	if n == nil {
		tp.be.Gemm(g)
		h.Free()
		return y
	}
	l := adapted{linear: linear{tp: tp, x: x, w: w, o: o, dtype: y.t.DType(), gateRows: g.GateRows, segments: x.samples()}, pair: p, h: n.hold(h), read: n.save(p.X.t)}
	if w.Trained {
		l.xs = n.save(x.t)
	}
	if o.Gate != nil && o.Gate.needs {
		l.before = n.hold(tp.pool.New(y.t.DType(), y.Shape()...).Named(w.Name + " before gate"))
		l.low = n.hold(tp.pool.New(kernels.F32, y.Shape()...).Named(p.B.Name + " before gate"))
		g.Pre, pair.Pre = l.before.Mat(), l.low.Mat()
	}
	tp.be.Gemm(g)
	if o.Gate != nil {
		l.gate = n.save(o.Gate.t)
	}
	y.takesBF16 = true
	n.back = func() { l.backward(y.grad) }
	return y
}

// adapted is what the backward of Adapted reads.
type adapted struct {
	linear
	pair LowRank
	h    *tensor.Tensor
	read *tensor.Tensor // x'
	low  *tensor.Tensor // the pair's part of what the gate multiplies
}

func (l *adapted) backward(dy *tensor.Tensor) {
	tp, p := l.tp, l.pair
	d := dy.Retain()
	defer func() { d.Free() }()
	if l.gate != nil {
		d.Free()
		d = l.throughGate(dy)
		if l.low != nil {
			dgate := tp.likeGrad(l.o.Gate)
			tp.be.GatedBackward(&kernels.GatedBackward{Gated: kernels.Gated{X: l.low.Mat(), Gate: l.gate.Mat(), RowsPerSample: l.gateRows},
				DY: dy.Mat(), DGate: dgate.Mat()})
			tp.give(l.o.Gate, dgate)
		}
	}
	if l.o.Bias.wantsGrad() {
		tp.be.SumRows(&kernels.SumRows{X: d.Mat(), Segments: l.segments, Out: tp.sum(l.o.Bias), Accumulate: true})
	}
	tp.addWeight(l.w, d, l.xs, l.segments, l.o.Alpha)
	dh := tp.pool.New(l.h.DType(), l.h.Shape()...).Named("gradient of " + p.A.Name)
	defer dh.Free()
	b, packed := tp.operand(p.B)
	tp.be.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: tp.Math, A: d.Mat(), B: b, W: packed, C: dh.Mat(), Alpha: p.Scale})
	tp.addWeight(p.B, d, l.h, l.segments, p.Scale)
	tp.addWeight(p.A, dh, l.read, l.segments, 0)
	if p.X == l.x && l.o.Residual != l.x {
		tp.giveMaybe(l.o.Residual, dy)
		a, packedA := tp.operand(p.A)
		tp.addInput(l.x, l.w, d, l.o.Alpha, &kernels.Pair{A: dh.Mat(), B: a, W: packedA})
		return
	}
	tp.addInput(l.x, l.w, d, l.o.Alpha, nil)
	tp.giveMaybe(l.o.Residual, dy)
	tp.addInput(p.X, p.A, dh, 0, nil)
}
