package tensor

import (
	"fmt"
	"slices"
)

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
