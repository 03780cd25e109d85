package autograd

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Reshape views the same elements in another shape. Samples stay together: where the
// first axis no longer counts them, the value remembers how many they are.
func (tp *Tape) Reshape(x *Value, shape ...int) *Value {
	t := x.t.Reshape(shape...)
	y := tp.result(x.t.Name(), t, x)
	y.segments, y.batch = nil, 0
	if x.segments == nil && (t.Rank() < 2 || t.Dim(0) != x.count()) {
		y.batch = x.count()
		if y.batch > 0 && t.Rows()%y.batch != 0 {
			panic(fmt.Sprintf("autograd: Reshape of %v to %v cuts through rows of samples", x.t, slices.Clone(shape)))
		}
	}
	if t.Cols() > 0 {
		for _, rows := range x.segments {
			y.segments = append(y.segments, rows*x.t.Cols()/t.Cols())
		}
	}
	if n := tp.record(y); n != nil {
		n.back = func() { tp.giveMaybe(x, y.grad) }
	}
	return y
}

// Chunk views the rows of x as n parts side by side. The parts have gaps between their
// rows: they serve as operands of matrices' operations (Norm, Linear, Gated, GLU, Modulate).
func (tp *Tape) Chunk(x *Value, n int) []*Value {
	cols := x.t.Cols()
	if n <= 0 || cols%n != 0 {
		panic(fmt.Sprintf("autograd: %v in %d parts", x.t, n))
	}
	parts, each := make([]*Value, n), cols/n
	for i := range parts {
		parts[i] = tp.result(x.t.Name(), x.t.Columns(i*each, (i+1)*each), x)
	}
	if node := tp.record(parts...); node != nil {
		node.back = func() {
			dx := tp.likeGrad(x)
			m := dx.Mat()
			for i, p := range parts {
				tp.copyOrClear(m.ColRange(i*each, (i+1)*each), p.grad)
			}
			tp.give(x, dx)
		}
	}
	return parts
}

// copyOrClear copies a gradient that may be nil.
func (tp *Tape) copyOrClear(dst kernels.Mat, g *tensor.Tensor) {
	if g == nil {
		g = tp.pool.Zeros(dst.DType, 1, dst.Cols)
		defer g.Free()
		m := g.Mat()
		m.Rows, m.Stride = dst.Rows, 0
		tp.copyRows(dst, m)
		return
	}
	tp.copyRows(dst, g.Mat())
}

// Split copies parts of the given lengths of an axis.
func (tp *Tape) Split(x *Value, axis int, lengths ...int) []*Value {
	outer, total, inner := around(x.Shape(), axis)
	sum := 0
	for _, l := range lengths {
		sum += l
	}
	if sum != total {
		panic(fmt.Sprintf("autograd: Split of %v along axis %d into %v", x.t, axis, slices.Clone(lengths)))
	}
	parts, at := make([]*Value, len(lengths)), 0
	for i, l := range lengths {
		shape := slices.Clone(x.Shape())
		shape[axis] = l
		parts[i] = tp.result("split", tp.pool.New(x.t.DType(), shape...), x)
		tp.copyRows(box(parts[i].t, outer, l*inner), box(x.t, outer, total*inner).ColRange(at, at+l*inner))
		at += l * inner
	}
	if n := tp.record(parts...); n != nil {
		n.back = func() {
			dx, at := tp.likeGrad(x), 0
			for i, l := range lengths {
				dst := box(dx, outer, total*inner).ColRange(at, at+l*inner)
				if g := parts[i].grad; g != nil {
					tp.copyRows(dst, box(g, outer, l*inner))
				} else {
					tp.copyOrClear(dst, nil)
				}
				at += l * inner
			}
			tp.give(x, dx)
		}
	}
	return parts
}

// Part copies indices lo to hi-1 of the first axis, each a sample of its own.
func (tp *Tape) Part(x *Value, lo, hi int) *Value {
	from := x.t.Slice(lo, hi)
	defer from.Free()
	y := tp.result("part", tp.pool.New(x.t.DType(), from.Shape()...), x)
	y.segments, y.batch = nil, 0
	tp.copyRows(y.t.Mat(), from.Mat())
	if n := tp.record(y); n != nil {
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.be.Fill(dx.Span(), 0)
			to := dx.Slice(lo, hi)
			tp.copyRows(to.Mat(), y.grad.Mat())
			to.Free()
			tp.give(x, dx)
		}
	}
	return y
}

// Concat joins values along an axis. Those that were made beside each other (Places) are joined already.
func (tp *Tape) Concat(axis int, xs ...*Value) *Value {
	shape, ts := slices.Clone(xs[0].Shape()), make([]*tensor.Tensor, len(xs))
	shape[axis] = 0
	for i, x := range xs {
		shape[axis] += x.Dim(axis)
		ts[i] = x.t
	}
	var whole *tensor.Tensor
	if axis == len(shape)-1 && len(xs) > 1 {
		whole = tensor.Beside(ts...)
	}
	joined := whole != nil
	if !joined {
		whole = tp.pool.New(xs[0].t.DType(), shape...)
	}
	y := tp.result("concat", whole, xs...)
	outer, total, inner := around(shape, axis)
	part := func(t *tensor.Tensor, f func(whole kernels.Mat, i int, x *Value, n int)) {
		at := 0
		for i, x := range xs {
			n := x.Dim(axis) * inner
			if x.t.Len() != outer*n {
				panic(fmt.Sprintf("autograd: Concat of %v and %v along axis %d", xs[0].t, x.t, axis))
			}
			f(box(t, outer, total*inner).ColRange(at, at+n), i, x, n)
			at += n
		}
	}
	if !joined {
		part(y.t, func(dst kernels.Mat, _ int, x *Value, n int) { tp.copyRows(dst, boxOf(x.t, outer, n)) })
	}
	if n := tp.record(y); n != nil {
		n.back = func() {
			part(y.grad, func(src kernels.Mat, _ int, x *Value, n int) {
				if x.needs {
					dx := tp.likeGrad(x)
					tp.copyRows(box(dx, outer, n), src)
					tp.give(x, dx)
				}
			})
		}
	}
	return y
}

// boxOf is box of a tensor that may have gaps between its rows, where these stay its rows.
func boxOf(t *tensor.Tensor, rows, cols int) kernels.Mat {
	if t.Contiguous() {
		return box(t, rows, cols)
	}
	if t.Cols() != cols {
		panic(fmt.Sprintf("autograd: %v has gaps between its rows: copy it first", t))
	}
	return t.Mat()
}

// around is the number of elements before, along and after an axis.
func around(shape []int, axis int) (outer, along, inner int) {
	outer, inner = 1, 1
	for _, n := range shape[:axis] {
		outer *= n
	}
	for _, n := range shape[axis+1:] {
		inner *= n
	}
	return outer, shape[axis], inner
}

// box is a contiguous tensor as a matrix of other proportions.
func box(t *tensor.Tensor, rows, cols int) kernels.Mat { return kernels.NewMat(t.Span(), rows, cols) }

// Permute reorders the axes (at most five): axis i of the result is axis order[i] of x.
// Where the first axis moves, samples are counted by the new first axis.
func (tp *Tape) Permute(x *Value, order ...int) *Value {
	shape := make([]int, len(order))
	for i, a := range order {
		shape[i] = x.Dim(a)
	}
	y := tp.result("permute", tp.pool.New(x.t.DType(), shape...), x)
	y.segments = nil
	if order[0] != 0 {
		y.batch = 0
	}
	tp.permute(x.t, y.t, order, false)
	if n := tp.record(y); n != nil {
		n.back = func() {
			dx := tp.likeGrad(x)
			tp.permute(y.grad, dx, order, true)
			tp.give(x, dx)
		}
	}
	return y
}

// permute copies x to y, whose axis i is axis order[i] of x; back is the way back.
func (tp *Tape) permute(x, y *tensor.Tensor, order []int, back bool) {
	if len(order) > 5 {
		panic(fmt.Sprintf("autograd: Permute of %d axes; at most 5", len(order)))
	}
	c := kernels.Copy{Src: x.Span(), Dst: y.Span(), Shape: [5]int{1, 1, 1, 1, 1}}
	wide := x // the tensor with the axes' old order
	if back {
		wide = y
	}
	old := strides(wide.Shape())
	at, stride := 5-len(order), 1
	for i := len(order) - 1; i >= 0; i-- {
		n := wide.Dim(order[i])
		c.Shape[at+i], c.SrcStride[at+i], c.DstStride[at+i] = n, old[order[i]], stride
		stride *= n
	}
	if back {
		c.SrcStride, c.DstStride = c.DstStride, c.SrcStride
	}
	tp.be.Copy(&c)
}

func strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// Place is memory for a result, beside that of others: values that were made beside each other are joined by Concat
// without a copy. Linear and Attention take one; the zero value is memory of the result's own.
type Place struct{ t *tensor.Tensor }

// Places are for results of these widths, with rows as x has them. Each is for one operation.
func (tp *Tape) Places(x *Value, widths ...int) []Place {
	sum, at := 0, 0
	for _, w := range widths {
		sum += w
	}
	whole := tp.pool.New(tp.DType, widen(x.Shape(), sum)...)
	defer whole.Free()
	places := make([]Place, len(widths))
	for i, w := range widths {
		places[i].t = whole.Columns(at, at+w)
		at += w
	}
	return places
}

// take is the place, or other memory where there is none or where the result does not fit.
func (p Place) take(tp *Tape, d kernels.DType, shape ...int) *tensor.Tensor {
	switch {
	case p.t == nil:
	case p.t.DType() == d && slices.Equal(p.t.Shape(), shape):
		return p.t
	default:
		p.Leave()
	}
	return tp.pool.New(d, shape...)
}

// Leave gives up a place that no operation took.
func (p Place) Leave() {
	if p.t != nil {
		p.t.Free()
	}
}
