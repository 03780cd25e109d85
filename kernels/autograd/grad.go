package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// The gradient of a value has the value's shape and no gaps between rows. It has the value's type, or
// is the bf16 gradient of its only user, as it is: numbers that F32 has as well. It is added up from the
// last user to the first: an order that no batch changes.

// give adds g to the gradient of x, and takes g over.
func (tp *Tape) give(x *Value, g *tensor.Tensor) {
	d := x.t.DType()
	if g.DType() != d && !(x.narrow && x.grad == nil && g.DType() == kernels.BF16) {
		c := tp.pool.New(d, g.Shape()...)
		tp.copyRows(c.Mat(), g.Mat())
		g.Free()
		g = c
	}
	switch {
	case x.grad == nil:
		x.grad = g
		return
	case x.grad.Shared() || x.grad.DType() != d: // another value has the same gradient, or it is narrow
		sum := tp.pool.New(d, x.Shape()...)
		tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: x.grad.Span(), Y: g.Span(), Z: sum.Span()})
		x.grad.Free()
		x.grad = sum
	default:
		tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: x.grad.Span(), Y: g.Span(), Z: x.grad.Span()})
	}
	g.Free()
}

// giveMaybe is give for an operand that may be absent or need nothing; g is not taken.
func (tp *Tape) giveMaybe(x *Value, g *tensor.Tensor) {
	if x != nil && x.needs {
		tp.give(x, g.Reshape(x.Shape()...))
	}
}

// likeGrad is memory for a gradient of x.
func (tp *Tape) likeGrad(x *Value) *tensor.Tensor {
	return tp.pool.New(x.t.DType(), x.Shape()...).Named("gradient of " + x.t.Name())
}

// needed is memory for the gradient of x, if it is present and needs one.
func (tp *Tape) needed(x *Value) *tensor.Tensor {
	if x == nil || !x.needs {
		return nil
	}
	return tp.likeGrad(x)
}

// giveIf hands over a gradient that may be nil.
func (tp *Tape) giveIf(x *Value, g *tensor.Tensor) {
	if g != nil {
		tp.give(x, g)
	}
}

// matOf is the matrix of a tensor that may be nil.
func matOf(t *tensor.Tensor) kernels.Mat {
	if t == nil {
		return kernels.Mat{}
	}
	return t.Mat()
}

// mat is the matrix of a value that may be nil.
func mat(v *Value) kernels.Mat {
	if v == nil {
		return kernels.Mat{}
	}
	return v.t.Mat()
}

// samples are the rows of each sample of a value.
func (v *Value) samples() []int {
	if v.segments != nil {
		return v.segments
	}
	n, rows := v.count(), v.t.Rows()
	if n == 0 || rows == 0 {
		return nil
	}
	k := [2]int{n, rows / n}
	s, ok := v.tape.even[k]
	if !ok {
		for range n {
			s = append(s, rows/n)
		}
		v.tape.even[k] = s
	}
	return s
}

// count is the number of samples of a value that is not ragged.
func (v *Value) count() int {
	switch {
	case v.batch > 0:
		return v.batch
	case v.t.Rank() < 2:
		return 1
	}
	return v.Dim(0)
}

// rowsPer is how many rows of x belong to each row of m: one row of m a sample.
func rowsPer(what string, x, m *Value) int {
	rows, samples := x.t.Rows(), m.t.Rows()
	if x.segments != nil || samples == 0 || rows%samples != 0 {
		panic(fmt.Sprintf("autograd: %s: %v has no equal number of rows for each row of %v", what, x.t, m.t))
	}
	return rows / samples
}

// copyRows copies a matrix, and casts where types differ.
func (tp *Tape) copyRows(dst, src kernels.Mat) {
	tp.be.Copy(&kernels.Copy{Src: src.Span, Dst: dst.Span,
		Shape:     [5]int{1, 1, 1, src.Rows, src.Cols},
		SrcStride: [5]int{0, 0, 0, src.Stride, 1},
		DstStride: [5]int{0, 0, 0, dst.Stride, 1}})
}

// Ragged says that the rows of x, [R, C], belong to samples of the given lengths.
func (tp *Tape) Ragged(x *Value, lengths []int) *Value {
	n := 0
	for _, l := range lengths {
		n += l
	}
	if n != x.t.Rows() {
		panic(fmt.Sprintf("autograd: lengths that add up to %d for the rows of %v", n, x.t))
	}
	y := tp.Reshape(x, x.Shape()...)
	y.segments = lengths
	return y
}
