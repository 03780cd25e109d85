package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Embedding looks rows up: y[r] = table[index[r]], in shape [dims..., C]. Backward adds
// rows to the table's gradient in order.
func (tp *Tape) Embedding(table *Param, index []int32, dims ...int) *Value {
	return tp.embedding(tp.DType, table, index, dims)
}

// EmbeddingWide looks rows up as F32, whatever the type of activations: biases of attention.
func (tp *Tape) EmbeddingWide(table *Param, index []int32, dims ...int) *Value {
	return tp.embedding(kernels.F32, table, index, dims)
}

func (tp *Tape) embedding(d kernels.DType, table *Param, index []int32, dims []int) *Value {
	checkIndex(table.Name, index, table.Shape[0])
	c := table.Shape[1]
	y := tp.result(table.Name, tp.pool.New(d, append(dims[:len(dims):len(dims)], c)...)).needsParam(table)
	at := tp.pool.FromI32(index, len(index))
	defer at.Free()
	tp.be.Embedding(&kernels.Embedding{Table: kernels.NewMat(table.Value.Span(), table.Shape[0], c), Index: at.Span(), Y: y.t.Mat()})
	if n := tp.record(y); n != nil {
		at := n.save(at)
		n.back = func() {
			tp.be.EmbeddingBackward(&kernels.EmbeddingBackward{DY: y.grad.Mat(), Index: at.Span(),
				DTable: kernels.NewMat(tp.sum(table), table.Shape[0], c)})
		}
	}
	return y
}

// Gather takes rows of x by number: the end-of-text token of each prompt. The result is
// [len(rows), C], or [dims..., C], whose first axis counts samples.
func (tp *Tape) Gather(x *Value, rows []int32, dims ...int) *Value {
	checkIndex(x.t.String(), rows, x.t.Rows())
	c := x.t.Cols()
	if len(dims) == 0 {
		dims = []int{len(rows)}
	}
	y := tp.result("gather", tp.pool.New(x.t.DType(), append(dims[:len(dims):len(dims)], c)...), x)
	y.segments, y.batch = nil, 0
	at := tp.pool.FromI32(rows, len(rows))
	defer at.Free()
	tp.be.Embedding(&kernels.Embedding{Table: x.t.Mat(), Index: at.Span(), Y: y.t.Mat()})
	if n := tp.record(y); n != nil {
		at := n.save(at)
		n.back = func() {
			dx := tp.pool.Zeros(kernels.F32, x.Shape()...)
			tp.be.EmbeddingBackward(&kernels.EmbeddingBackward{DY: y.grad.Mat(), Index: at.Span(), DTable: dx.Mat()})
			tp.give(x, dx)
		}
	}
	return y
}

func checkIndex(what string, index []int32, n int) {
	for i, v := range index {
		if v < 0 || int(v) >= n {
			panic(fmt.Sprintf("autograd: index %d is %d, of %s, which has %d rows", i, v, what, n))
		}
	}
}
