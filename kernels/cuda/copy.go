package cuda

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Copies of boxes. Small ones come several at a time (tokens of pictures and texts, of queries, keys and values, that
// are joined), and to start a kernel takes as long as to copy one. So a copy waits for the next operation, and copies
// that follow one another start as one kernel, a row of its grid each, where none touches what another writes.

// mostCopies is how many boxes a kernel takes; src/elementwise.cu.
const mostCopies = 8

type copies struct {
	boxes []copyArgs
}

type copiesArgs struct{ boxes [mostCopies]copyArgs }

// copy lets a box wait, and starts those that wait if it cannot go with them.
func (b *Backend) copy(c *copyArgs) {
	b.now("Copy", func() error {
		if !b.copies.take(c) {
			if err := b.startCopies(); err != nil {
				return err
			}
		}
		b.copies.boxes = append(b.copies.boxes, *c)
		if b.waitEach {
			return b.startCopies()
		}
		return nil
	})
}

// take reports whether a box may start together with those that wait.
func (w *copies) take(c *copyArgs) bool {
	return len(w.boxes) < mostCopies && !slices.ContainsFunc(w.boxes, func(o copyArgs) bool { return c.touches(&o) })
}

// startCopies queues the copies that wait.
func (b *Backend) startCopies() error {
	if len(b.copies.boxes) == 0 {
		return nil
	}
	args, most := &copiesArgs{}, 0
	for i, c := range b.copies.boxes {
		args.boxes[i], most = c, max(most, int(c.outer))
	}
	grid := [2]int{b.walkers(most), len(b.copies.boxes)}
	b.copies.boxes = b.copies.boxes[:0]
	return b.queue("copy", grid, 256, 0, args)
}

// touches says that one of two copies may write what the other reads or writes.
func (c *copyArgs) touches(o *copyArgs) bool {
	return c.written().meets(o.written()) || c.written().meets(o.read()) || c.read().meets(o.written())
}

// A region is memory from lo to hi; of it the first width bytes of every stride, where stride is not 0.
type region struct{ lo, hi, stride, width int64 }

func (c *copyArgs) read() region    { return c.region(c.src, c.from, c.srcKind) }
func (c *copyArgs) written() region { return c.region(c.dst, c.to, c.dstKind) }

func (c *copyArgs) region(p uintptr, strides [10]int64, kind int32) region {
	unit := int64(kernels.DType(kind).Size())
	switch {
	case c.moveBytes > 0:
		unit = int64(c.moveBytes)
	case c.moveBytes == copyEight:
		unit *= 8
	}
	r, rows := region{lo: int64(p), hi: int64(p) + unit}, true
	for i, n := range c.n {
		r.hi += (n - 1) * strides[i] * unit
		rows = rows && (n == 1 || i == 3 || i == 4 && strides[i] == 1)
	}
	if rows && c.n[3] > 1 {
		r.stride, r.width = strides[3]*unit, c.n[4]*unit
	}
	return r
}

// meets reports whether two regions may have a byte in common.
func (r region) meets(o region) bool {
	if r.hi <= o.lo || o.hi <= r.lo {
		return false
	}
	if r.stride == 0 || r.stride != o.stride {
		return true
	}
	between := ((o.lo-r.lo)%r.stride + r.stride) % r.stride
	return between < r.width || r.stride-between < o.width
}

type copyArgs struct {
	src, dst           uintptr
	n, from, to        [10]int64
	outer, inner       int64
	srcKind, dstKind   int32
	moveBytes, addFlag int32
}

// Copy moves a box. Axes whose elements all go to one place are walked in order; the others
// are spread over threads.
func (b *Backend) Copy(a *kernels.Copy) {
	if a.Accumulate && a.Dst.DType == kernels.F16 {
		panic(fmt.Sprintf("kernels: Copy adds to %s", a.Dst.DType))
	}
	c := &copyArgs{src: at(a.Src), dst: at(a.Dst), outer: 1, inner: 1, srcKind: int32(a.Src.DType), dstKind: int32(a.Dst.DType), addFlag: flag(a.Accumulate)}
	if a.Src.DType == a.Dst.DType && !a.Accumulate {
		c.moveBytes = int32(a.Src.DType.Size())
	}
	for i := range c.n {
		c.n[i] = 1
	}
	for i, n := range a.Shape {
		j, total := i, &c.outer
		if a.DstStride[i] == 0 && n > 1 {
			j, total = 5+i, &c.inner
		}
		c.n[j], c.from[j], c.to[j] = int64(n), int64(a.SrcStride[i]), int64(a.DstStride[i])
		*total *= int64(n)
	}
	if c.inner == 0 || c.outer == 0 {
		return
	}
	switch {
	case c.moveBytes > 0:
		if c.inUnits(int64(piece/c.moveBytes), uintptr(piece)) {
			c.moveBytes = piece
		}
	case a.Src.DType != kernels.F16 && a.Dst.DType != kernels.F16:
		if c.inUnits(8, piece) {
			c.moveBytes = copyEight
		}
	}
	b.copy(c)
}

// The widest access of a device, and a copy's mark for eight numbers at a time; src/elementwise.cu.
const (
	piece     = 16
	copyEight = -8
)

// inUnits makes a copy count in units of n elements that lie together, where it can.
func (c *copyArgs) inUnits(n int64, aligned uintptr) bool {
	if c.inner != 1 || c.from[4] != 1 || c.to[4] != 1 || c.n[4]%n != 0 || c.src%aligned != 0 || c.dst%aligned != 0 {
		return false
	}
	for i := range 4 {
		if c.n[i] > 1 && (c.from[i]%n != 0 || c.to[i]%n != 0) {
			return false
		}
	}
	for i := range 4 {
		c.from[i], c.to[i] = c.from[i]/n, c.to[i]/n
	}
	c.n[4], c.outer = c.n[4]/n, c.outer/n
	return true
}
