package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Linear: y = residual + gate · act(alpha · x Wᵀ + bias), one product with its epilogue.
//
//	d = dy · gate, then times act'(before)     dgate = sum of dy · act(before) over a sample
//	dx = alpha · d W    dW = alpha · dᵀ x      dbias = sum of d
//
// What comes before the activation is stored beside y where backward reads it; that
// changes no bit of y. dx takes the gradient that x already has as the product's residual.

// With is the epilogue of a product. Everything is optional.
type With struct {
	Bias     *Param
	Act      kernels.UnaryOp
	Gate     *Value  // one row a sample
	Residual *Value  // the result's shape
	Alpha    float32 // 0 means 1
	Wide     bool    // the result is F32, whatever the type of activations
	Place            // where the result is made, if it fits
}

// Linear is the product with a weight [out, in].
func (tp *Tape) Linear(x *Value, w *Param, o With) *Value {
	if len(w.Shape) != 2 || x.t.Cols() != w.Shape[1] {
		panic(fmt.Sprintf("autograd: Linear of %v with %s %v", x.t, w.Name, w.Shape))
	}
	y := tp.result(w.Name, o.take(tp, tp.outType(o.Wide), widen(x.Shape(), w.Shape[0])...), x, o.Gate, o.Residual).needsParam(w, o.Bias)
	b, packed := tp.operand(w)
	g := &kernels.Gemm{Layout: kernels.NT, Math: tp.Math, A: x.t.Mat(), B: b, W: packed, C: y.t.Mat(),
		Alpha: o.Alpha, Bias: o.Bias.span(), Act: o.Act, Gate: mat(o.Gate), Residual: mat(o.Residual)}
	if o.Gate != nil {
		g.GateRows = rowsPer("Linear", y, o.Gate)
	}
	n := tp.record(y)
	if n == nil {
		tp.be.Gemm(g)
		return y
	}
	var before *tensor.Tensor
	if o.Act != kernels.Identity || o.Gate != nil && o.Gate.needs {
		before = n.hold(tp.pool.New(y.t.DType(), y.Shape()...).Named(w.Name + " before activation"))
		g.Pre = before.Mat()
	}
	tp.be.Gemm(g)
	l := linear{tp: tp, x: x, w: w, o: o, dtype: y.t.DType(), gateRows: g.GateRows, before: before}
	if w.Trained {
		l.xs = n.save(x.t)
	}
	if o.Gate != nil {
		l.gate = n.save(o.Gate.t)
	}
	y.takesBF16 = true
	l.segments = x.samples()
	n.back = func() { l.backward(y.grad) }
	return y
}

// linear is what the backward of Linear reads.
type linear struct {
	tp               *Tape
	x                *Value
	w                *Param
	o                With
	dtype            kernels.DType // of the result, and of gradients on the way
	gateRows         int
	segments         []int
	xs, gate, before *tensor.Tensor
}

func (l *linear) backward(dy *tensor.Tensor) {
	tp := l.tp
	tp.giveMaybe(l.o.Residual, dy)
	d := dy.Retain()
	defer func() { d.Free() }()
	next := func(t *tensor.Tensor) {
		d.Free()
		d = t
	}
	if l.gate != nil {
		next(l.throughGate(d))
	}
	if l.o.Act != kernels.Identity {
		t := tp.pool.New(l.dtype, d.Shape()...)
		tp.be.UnaryBackward(&kernels.UnaryBackward{Op: l.o.Act, X: l.before.Span(), DY: d.Span(), DX: t.Span()})
		next(t)
	}
	if l.o.Bias.wantsGrad() {
		tp.be.SumRows(&kernels.SumRows{X: d.Mat(), Segments: l.segments, Out: tp.sum(l.o.Bias), Accumulate: true})
	}
	tp.addWeight(l.w, d, l.xs, l.segments, l.o.Alpha)
	tp.addInput(l.x, l.w, d, l.o.Alpha, nil)
}

// addWeight adds alpha · dᵀ x to the gradient of a weight, if it is trained.
func (tp *Tape) addWeight(w *Param, d, x *tensor.Tensor, segments []int, alpha float32) {
	if !w.Trained {
		return
	}
	dw := kernels.NewMat(tp.sum(w), w.Shape[0], w.Len()/w.Shape[0])
	tp.be.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: tp.Math, A: d.Mat(), B: x.Mat(), C: dw, Segments: segments, Alpha: alpha, Accumulate: true})
}

// addInput adds alpha · d W, and what a pair adds, to the gradient of an input, if it needs one.
func (tp *Tape) addInput(x *Value, w *Param, d *tensor.Tensor, alpha float32, pair *kernels.Pair) {
	if !x.needs {
		return
	}
	dx, old := tp.likeGrad(x), x.grad
	b, packed := tp.operand(w)
	tp.be.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: tp.Math, A: d.Mat(), B: b, W: packed, C: dx.Mat(), Alpha: alpha, Residual: matOf(old), Pair: pair})
	if old != nil {
		old.Free()
	}
	x.grad = dx
}

// throughGate is the gradient behind the gate, and gives the gate its own.
func (l *linear) throughGate(d *tensor.Tensor) *tensor.Tensor {
	tp := l.tp
	dv, dgate := tp.pool.New(l.dtype, d.Shape()...), tp.needed(l.o.Gate)
	v := d // not read without dgate
	if dgate != nil {
		v = l.before.Retain()
		if l.o.Act != kernels.Identity {
			v.Free()
			v = tp.pool.New(l.dtype, d.Shape()...)
			tp.be.Unary(&kernels.Unary{Op: l.o.Act, X: l.before.Span(), Y: v.Span()})
		}
		defer v.Free()
	}
	tp.be.GatedBackward(&kernels.GatedBackward{Gated: kernels.Gated{X: v.Mat(), Gate: l.gate.Mat(), RowsPerSample: l.gateRows},
		DY: d.Mat(), DX: dv.Mat(), DGate: matOf(dgate)})
	tp.giveIf(l.o.Gate, dgate)
	return dv
}

func (tp *Tape) outType(wide bool) kernels.DType {
	if wide {
		return kernels.F32
	}
	return tp.DType
}

// widen is a shape with another last axis.
func widen(shape []int, cols int) []int {
	s := append([]int(nil), shape...)
	s[len(s)-1] = cols
	return s
}
