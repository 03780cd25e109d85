package onnx

import (
	"fmt"
	"math/bits"
)

// A block is the memory of one tensor, or of several that are views of it.
type block struct {
	f     []float32 // given back to the run's pool; nil where the collector takes the memory
	bytes int64
	refs  int
}

// memory counts tensors and keeps the memory of freed ones.
type memory struct {
	free       map[int][][]float32 // by size class
	live, peak int64
	kept       int64 // bytes of free
	most       int64
}

// classOf is a size of at least n, with two bits behind the first.
func classOf(n int) int {
	if n <= 64 {
		return 64
	}
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) / step * step
}

// take counts memory of n elements of a type, or returns an error that names the limit.
func (m *memory) take(t *Tensor, n int) error {
	size := int64(n) * int64(t.Type.bytes())
	if m.live+size > m.most {
		return fmt.Errorf("a tensor %v takes %d bytes beside %d that are held, and %d are the most", t, size, m.live, m.most)
	}
	t.mem = &block{bytes: size, refs: 1}
	m.live += size
	m.peak = max(m.peak, m.live)
	if !t.Type.isFloat() {
		t.make(n)
		return nil
	}
	class := classOf(n)
	if list := m.free[class]; len(list) > 0 {
		t.mem.f = list[len(list)-1]
		m.free[class] = list[:len(list)-1]
		m.kept -= 4 * int64(class)
	} else {
		if m.live+m.kept > m.most {
			m.drop()
		}
		t.mem.f = make([]float32, class)
	}
	t.F = t.mem.f[:n:n]
	return nil
}

// drop gives the kept memory to the collector.
func (m *memory) drop() {
	clear(m.free)
	m.kept = 0
}

// hold counts one more view of a tensor's memory.
func (t *Tensor) hold() {
	if t.mem != nil {
		t.mem.refs++
	}
}

// release ends a view; memory without views is used again.
func (m *memory) release(t *Tensor) {
	if t == nil || t.mem == nil {
		return
	}
	b := t.mem
	if b.refs--; b.refs > 0 {
		return
	}
	t.mem = nil
	m.live -= b.bytes
	if b.f != nil {
		m.free[len(b.f)] = append(m.free[len(b.f)], b.f)
		m.kept += 4 * int64(len(b.f))
		b.f = nil
	}
}
