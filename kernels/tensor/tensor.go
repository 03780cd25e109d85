package tensor

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// maxRank is the most axes a tensor can have.
const maxRank = 6

// Tensor is a handle on typed, shaped memory of a pool.
type Tensor struct {
	name       string
	pool       *Pool
	store      *storage
	generation uint32
	freed      bool
	dtype      kernels.DType
	off        int // elements from the piece's start
	rank       int
	dims       [maxRank]int
	stride     int // elements from one row to the next
}

// Named gives the tensor a name for messages, and returns it.
func (t *Tensor) Named(name string) *Tensor {
	t.name = name
	return t
}

// Name is the name for messages.
func (t *Tensor) Name() string { return t.name }

// Pool is where the memory comes from.
func (t *Tensor) Pool() *Pool { return t.pool }

// DType is the type of the elements.
func (t *Tensor) DType() kernels.DType { return t.dtype }

// Shape is the length of each axis. It must not be changed.
func (t *Tensor) Shape() []int { return t.dims[:t.rank:t.rank] }

// Rank is the number of axes.
func (t *Tensor) Rank() int { return t.rank }

// Dim is the length of axis i; -1 is the last.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += t.rank
	}
	return t.Shape()[i]
}

// Len is the number of elements.
func (t *Tensor) Len() int { return product(t.Shape()) }

// Cols is the length of the last axis, Rows the product of the others.
func (t *Tensor) Cols() int {
	if t.rank == 0 {
		return 1
	}
	return t.dims[t.rank-1]
}

// Rows is the number of rows.
func (t *Tensor) Rows() int {
	if t.rank == 0 {
		return 1
	}
	return product(t.dims[:t.rank-1])
}

// Contiguous reports whether there is no gap between rows.
func (t *Tensor) Contiguous() bool { return t.stride == t.Cols() || t.Rows() == 1 }

// Span is the memory of a contiguous tensor.
func (t *Tensor) Span() kernels.Span {
	if !t.Contiguous() {
		panic(fmt.Sprintf("tensor: %v has gaps between its rows: copy it first", t))
	}
	return t.span(t.Len())
}

// Mat is the tensor as a matrix of its rows.
func (t *Tensor) Mat() kernels.Mat {
	rows, cols := t.Rows(), t.Cols()
	n := 0
	if rows > 0 {
		n = (rows-1)*t.stride + cols
	}
	return kernels.Mat{Span: t.span(n), Rows: rows, Cols: cols, Stride: t.stride}
}

// Heads is a tensor [B, S, H·D] (or with more axes before S) as [b, s, h, d].
func (t *Tensor) Heads(heads int) kernels.Heads {
	cols := t.Cols()
	if t.rank < 2 || heads <= 0 || cols%heads != 0 {
		panic(fmt.Sprintf("tensor: %v does not split into %d heads", t, heads))
	}
	m, s := t.Mat(), t.Dim(-2)
	d := cols / heads
	return kernels.Heads{Span: m.Span, B: m.Rows / s, S: s, H: heads, D: d, SB: s * t.stride, SS: t.stride, SH: d}
}

func (t *Tensor) span(n int) kernels.Span {
	t.check("used")
	return kernels.Span{Buf: t.store.buf, Off: t.off, Len: n, DType: t.dtype}
}

func (t *Tensor) check(what string) {
	if t.freed || t.store.generation != t.generation {
		panic(fmt.Sprintf("tensor: %v is %s after it was freed", t, what))
	}
}

// Alive reports whether the handle may still be used.
func (t *Tensor) Alive() bool { return !t.freed }

// Shared reports whether another handle is on the same memory.
func (t *Tensor) Shared() bool { t.check("asked about"); return t.store.refs > 1 }

// Free gives up the handle. The memory goes back with the last handle on it.
func (t *Tensor) Free() {
	t.check("freed")
	t.freed = true
	if t.store.refs--; t.store.refs == 0 {
		t.pool.giveBack(t.store)
	}
}

func (t *Tensor) String() string {
	name := t.name
	if name == "" {
		name = "(unnamed)"
	}
	return fmt.Sprintf("%s %s%v", name, t.dtype, t.Shape())
}

func (t *Tensor) setShape(shape []int) {
	if len(shape) > maxRank || slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		panic(fmt.Sprintf("tensor: the shape %v: at most %d axes, none negative", slices.Clone(shape), maxRank))
	}
	t.rank = copy(t.dims[:], shape)
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Views are handles on their parent's memory. They cost no copy, keep the memory
// alive, and must be freed like any tensor.

// Retain is another handle on the whole tensor.
func (t *Tensor) Retain() *Tensor {
	t.check("retained")
	v := new(Tensor)
	*v = *t
	t.store.refs++
	return v
}

// Reshape views the same elements in another shape. With gaps between the rows, the
// last axis must stay.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	n := product(shape)
	last := 1
	if len(shape) > 0 {
		last = shape[len(shape)-1]
	}
	if n != t.Len() || !t.Contiguous() && last != t.Cols() {
		panic(fmt.Sprintf("tensor: %v cannot be seen as %v", t, slices.Clone(shape)))
	}
	v := t.Retain()
	v.setShape(shape)
	if t.Contiguous() {
		v.stride = v.Cols()
	}
	return v
}

// Columns views elements lo to hi-1 of every row.
func (t *Tensor) Columns(lo, hi int) *Tensor {
	if t.rank == 0 || lo < 0 || hi < lo || hi > t.Cols() {
		panic(fmt.Sprintf("tensor: %v has no columns %d to %d", t, lo, hi))
	}
	v := t.Retain()
	v.off += lo
	v.dims[v.rank-1] = hi - lo
	return v
}

// Slice views indices lo to hi-1 of the first axis.
func (t *Tensor) Slice(lo, hi int) *Tensor {
	if t.rank < 2 || lo < 0 || hi < lo || hi > t.dims[0] {
		panic(fmt.Sprintf("tensor: %v has no indices %d to %d", t, lo, hi))
	}
	v := t.Retain()
	v.off += lo * product(t.dims[1:t.rank-1]) * t.stride
	v.dims[0] = hi - lo
	return v
}

// Beside views parts that lie beside each other, as Columns made them of one tensor,
// as that tensor; nil if they do not.
func Beside(parts ...*Tensor) *Tensor {
	first, end := parts[0], parts[0].off
	for _, p := range parts {
		if p.store != first.store || p.dtype != first.dtype || p.stride != first.stride || p.off != end || p.Rows() != first.Rows() {
			return nil
		}
		end += p.Cols()
	}
	if end-first.off > first.stride {
		return nil
	}
	v := first.Retain()
	v.dims[v.rank-1] = end - first.off
	return v
}
