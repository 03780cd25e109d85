package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Unary is op of every element.
func (tp *Tape) Unary(op kernels.UnaryOp, x *Value) *Value {
	y := tp.result(op.String(), tp.pool.New(tp.DType, x.Shape()...), x)
	tp.be.Unary(&kernels.Unary{Op: op, X: x.t.Span(), Y: y.t.Span()})
	if n := tp.record(y); n != nil {
		xs := n.save(x.t)
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.be.UnaryBackward(&kernels.UnaryBackward{Op: op, X: xs.Span(), DY: y.grad.Span(), DX: dx.Span()})
			tp.give(x, dx)
		}
	}
	return y
}

// Binary is x op y for two values of one shape.
func (tp *Tape) Binary(op kernels.BinaryOp, x, y *Value) *Value {
	if x.t.Len() != y.t.Len() || x.t.Cols() != y.t.Cols() {
		panic(fmt.Sprintf("autograd: Binary of %v and %v", x.t, y.t))
	}
	z := tp.result("binary", tp.pool.New(tp.DType, x.Shape()...), x, y)
	tp.binary(op, x.t, y.t, z.t)
	n := tp.record(z)
	if n == nil {
		return z
	}
	var xs, ys *tensor.Tensor
	if op == kernels.Mul || op == kernels.Div {
		xs, ys = n.save(x.t), n.save(y.t)
	}
	n.back = func() {
		if x.needs {
			switch op {
			case kernels.Add, kernels.Sub:
				tp.giveMaybe(x, z.grad)
			default: // dx = dz·y, or dz/y
				dx := tp.likeGrad(x)
				tp.binary(op, z.grad, ys, dx)
				tp.give(x, dx)
			}
		}
		if y.needs {
			tp.binaryRight(op, y, z.grad, xs, ys)
		}
	}
	return z
}

// binaryRight is the gradient of the right operand: dz, -dz, dz·x, -dz·x/y².
func (tp *Tape) binaryRight(op kernels.BinaryOp, y *Value, dz, xs, ys *tensor.Tensor) {
	if op == kernels.Add {
		tp.giveMaybe(y, dz)
		return
	}
	dy := tp.likeGrad(y)
	switch op {
	case kernels.Sub:
		tp.be.Axpby(&kernels.Axpby{A: -1, X: dz.Span(), Y: dy.Span()})
	case kernels.Mul:
		tp.binary(kernels.Mul, dz, xs, dy)
	case kernels.Div:
		tp.binary(kernels.Mul, dz, xs, dy)
		tp.binary(kernels.Div, dy, ys, dy)
		tp.binary(kernels.Div, dy, ys, dy)
		tp.be.Axpby(&kernels.Axpby{A: -1, X: dy.Span(), Y: dy.Span()})
	}
	tp.give(y, dy)
}

func (tp *Tape) binary(op kernels.BinaryOp, x, y, z *tensor.Tensor) {
	tp.be.Binary(&kernels.Binary{Op: op, X: x.Span(), Y: y.Span(), Z: z.Span()})
}

// Add is x + y.
func (tp *Tape) Add(x, y *Value) *Value { return tp.Binary(kernels.Add, x, y) }

// Sub is x - y.
func (tp *Tape) Sub(x, y *Value) *Value { return tp.Binary(kernels.Sub, x, y) }

// Mul is x · y.
func (tp *Tape) Mul(x, y *Value) *Value { return tp.Binary(kernels.Mul, x, y) }

// Div is x / y.
func (tp *Tape) Div(x, y *Value) *Value { return tp.Binary(kernels.Div, x, y) }

// Scale is a · x.
func (tp *Tape) Scale(x *Value, a float32) *Value {
	y := tp.result("scale", tp.pool.New(tp.DType, x.Shape()...), x)
	tp.be.Axpby(&kernels.Axpby{A: a, X: x.t.Span(), Y: y.t.Span()})
	if n := tp.record(y); n != nil {
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.be.Axpby(&kernels.Axpby{A: a, X: y.grad.Span(), Y: dx.Span()})
			tp.give(x, dx)
		}
	}
	return y
}

// Modulate is x · (1 + scale) + shift, with one row of each a sample.
func (tp *Tape) Modulate(x, scale, shift *Value) *Value {
	y := tp.result("modulate", tp.pool.New(tp.DType, x.Shape()...), x, scale, shift)
	a := kernels.Modulate{X: x.t.Mat(), Y: y.t.Mat(), Scale: mat(scale), Shift: mat(shift), RowsPerSample: rowsPer("Modulate", x, shift)}
	tp.be.Modulate(&a)
	if n := tp.record(y); n != nil {
		n.save(x.t)
		n.save(scale.t)
		n.back = func() {
			dx, dscale, dshift := tp.needed(x), tp.needed(scale), tp.needed(shift)
			a.Shift = kernels.Mat{}
			tp.be.ModulateBackward(&kernels.ModulateBackward{Modulate: a, DY: y.grad.Mat(), DX: matOf(dx), DScale: matOf(dscale), DShift: matOf(dshift)})
			tp.giveIf(x, dx)
			tp.giveIf(scale, dscale)
			tp.giveIf(shift, dshift)
		}
	}
	return y
}

// AddSample adds one row to every row of a sample: a time embedding to a picture.
func (tp *Tape) AddSample(x, row *Value) *Value {
	y := tp.result("add to samples", tp.pool.New(tp.DType, x.Shape()...), x, row)
	per := rowsPer("AddSample", x, row)
	zero := tp.pool.Zeros(row.t.DType(), row.t.Rows(), row.t.Cols()) // x·(1+0) + row
	defer zero.Free()
	tp.be.Modulate(&kernels.Modulate{X: x.t.Mat(), Y: y.t.Mat(), Scale: zero.Mat(), Shift: mat(row), RowsPerSample: per})
	if n := tp.record(y); n != nil {
		n.back = func() {
			tp.giveMaybe(x, y.grad)
			if !row.needs {
				return
			}
			d, zero := tp.likeGrad(row), tp.pool.Zeros(row.t.DType(), row.t.Rows(), row.t.Cols())
			tp.be.ModulateBackward(&kernels.ModulateBackward{DY: y.grad.Mat(), DShift: d.Mat(),
				Modulate: kernels.Modulate{X: y.grad.Mat(), Scale: zero.Mat(), RowsPerSample: per}})
			zero.Free()
			tp.give(row, d)
		}
	}
	return y
}

// Gated is residual + x · gate, with one row of gate a sample.
func (tp *Tape) Gated(x, gate, residual *Value) *Value {
	y := tp.result("gated", tp.pool.New(tp.DType, x.Shape()...), x, gate, residual)
	a := kernels.Gated{X: x.t.Mat(), Residual: mat(residual), Y: y.t.Mat(), Gate: mat(gate), RowsPerSample: rowsPer("Gated", x, gate)}
	tp.be.Gated(&a)
	if n := tp.record(y); n != nil {
		n.save(x.t)
		n.save(gate.t)
		n.back = func() {
			tp.giveMaybe(residual, y.grad)
			dx, dgate := tp.needed(x), tp.needed(gate)
			if dx == nil && dgate == nil {
				return
			}
			a.Residual = kernels.Mat{}
			tp.be.GatedBackward(&kernels.GatedBackward{Gated: a, DY: y.grad.Mat(), DX: matOf(dx), DGate: matOf(dgate)})
			tp.giveIf(x, dx)
			tp.giveIf(gate, dgate)
		}
	}
	return y
}

// GLU is x · act(gate): GEGLU, SwiGLU and T5's gated GELU. Halves of a wide product come
// from Chunk.
func (tp *Tape) GLU(act kernels.UnaryOp, x, gate *Value) *Value {
	y := tp.result("glu", tp.pool.New(tp.DType, x.Shape()...), x, gate)
	a := kernels.GLU{Act: act, X: x.t.Mat(), Gate: gate.t.Mat(), Y: y.t.Mat()}
	tp.be.GLU(&a)
	if n := tp.record(y); n != nil {
		n.save(x.t)
		n.save(gate.t)
		n.back = func() {
			dx, dgate := tp.likeGrad(x), tp.likeGrad(gate)
			tp.be.GLUBackward(&kernels.GLUBackward{GLU: a, DY: y.grad.Mat(), DX: dx.Mat(), DGate: dgate.Mat()})
			tp.giveOrFree(x, dx)
			tp.giveOrFree(gate, dgate)
		}
	}
	return y
}

// AddParam adds a parameter of one sample's shape to every sample: a table of positions.
func (tp *Tape) AddParam(x *Value, p *Param) *Value {
	each := p.Value.Len()
	if each == 0 || x.t.Len()%each != 0 || x.segments != nil {
		panic(fmt.Sprintf("autograd: AddParam: %s %v does not repeat to %v", p.Name, p.Shape, x.t))
	}
	y := tp.result("add "+p.Name, tp.pool.New(tp.DType, x.Shape()...), x).needsParam(p)
	tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: x.t.Span(), Y: p.Value.Span(), Z: y.t.Span()})
	if n := tp.record(y); n != nil {
		n.back = func() {
			if p.Trained {
				sum, d := tp.sum(p), y.grad.Span()
				for at := 0; at < d.Len; at += each {
					tp.be.Copy(&kernels.Copy{Src: d.Slice(at, at+each), Dst: sum, Accumulate: true,
						Shape: [5]int{1, 1, 1, 1, each}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
				}
			}
			tp.giveMaybe(x, y.grad)
		}
	}
	return y
}

// Dropout sets elements to zero with probability p, and divides the others by 1-p. What
// is dropped is a function of the sample's key (Tape.Keys) and the purpose alone. On a
// tape that does not train it is x.
func (tp *Tape) Dropout(x *Value, p float32, purpose rng.Purpose) *Value {
	if p == 0 || !tp.Train {
		return x
	}
	samples := x.samples()
	if len(tp.Keys) != len(samples) {
		panic(fmt.Sprintf("autograd: Dropout %s: %d keys for %d samples", purpose, len(tp.Keys), len(samples)))
	}
	cols, at := x.t.Cols(), 0
	mask := make([]float32, x.t.Len())
	for s, rows := range samples {
		m := mask[at : at+rows*cols]
		tp.Keys[s].With(purpose).Uniform(m, 0)
		for i, u := range m {
			m[i] = 0
			if u >= p {
				m[i] = 1 / (1 - p)
			}
		}
		at += rows * cols
	}
	return tp.Mul(x, tp.Upload("dropout", mask, x.Shape()...))
}
