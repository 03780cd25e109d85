package unpack

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// group is how many codes a kernel unpacks at once.
const group = 16

// longest is how many codes a call unpacks at most: some ten microseconds, in which the collector cannot stop the
// goroutine.
const longest = 1 << 15

// A job is a run of blocks, as kernels read it.
type job struct {
	codes, table, scale, min, dst unsafe.Pointer
	blocks, groups                int // blocks of a number of groups of codes
	scaleStep, minStep            int // bytes from a block's number to the next one's
	over                          float32
	low                           uint32     // all ones, if the first of two codes is the low nibble
	shifts                        [16]uint32 // of 16 codes in two words, eight in each
	planes                        [64]byte   // of a table of 16: its bytes 0, bytes 1, bytes 2, bytes 3
}

// Rows is ref.Unpack, on a path.
func Rows(p isa.Path, a *kernels.Unpack, lo, hi int) { Into(p, a.Dst.RowRange(lo, hi), a, lo, hi) }

// Into is Rows, written to dst.
func Into(p isa.Path, dst kernels.Mat, a *kernels.Unpack, lo, hi int) {
	if lo == hi || a.Dst.Cols == 0 {
		return
	}
	to := *a
	to.Dst = dst
	r := newRun(&to, kernelOf(p, a.Bits, dst.DType))
	if flat(a.Scale) && flat(a.Min) && dst.Stride == dst.Cols {
		r.stretch(lo*dst.Cols, hi*dst.Cols, 0)
		return
	}
	for row := lo; row < hi; row++ {
		r.stretch(row*dst.Cols, (row+1)*dst.Cols, (row-lo)*dst.Stride)
	}
}

// flat reports whether blocks run on from row to row.
func flat(b kernels.Blocks) bool { return b.Flat > 0 || b.Rows == 0 && b.Across == 0 }

// A run is the work of a call of Rows.
type run struct {
	a             *kernels.Unpack
	f             func(*job) // nil: the loop of ref
	scales, least []float32
	size          int // bytes of an element of the destination
	job
}

// none is the minimum of blocks without one: v - 0 is v, for zeros too.
var none = []float32{0}

func newRun(a *kernels.Unpack, f func(*job)) *run {
	r := &run{a: a, f: f, scales: a.Scale.Values.F32(), least: none, size: a.Dst.DType.Size()}
	if !a.Min.Values.Empty() {
		r.least = a.Min.Values.F32()
	}
	table := a.Table.F32()
	r.table, r.over = unsafe.Pointer(&table[0]), 1 // v * 1 is v
	if a.Over != 0 {
		r.over = a.Over
	}
	first, second := uint32(4), uint32(0)
	if a.Low {
		first, second, r.low = 0, 4, ^uint32(0)
	}
	for i := range r.shifts {
		r.shifts[i] = uint32(i%8/2*8) + [2]uint32{first, second}[i%2]
	}
	if a.Bits == 4 {
		bytes := unsafe.Slice((*byte)(r.table), 64)
		for i, b := range bytes {
			r.planes[i%4*16+i/4] = b
		}
	}
	return r
}

// stretch unpacks elements from to to-1, which lie together from element dst of the destination on: of one row, or of
// several where blocks run on.
func (r *run) stretch(from, to, dst int) {
	for at := from; at < to; {
		s, m := r.block(r.a.Scale, at, to), r.block(r.a.Min, at, to)
		length := min(s.end, m.end) - at
		blocks := 1
		if length%group == 0 && (s.whole(at, length) || s.end == to) && (m.whole(at, length) || m.end == to) {
			blocks = max(1, min((to-at)/length, longest/length))
		}
		n := r.whole(at, length)
		if n > 0 {
			n = r.call(s, m, at, dst+at-from, n, blocks)
		}
		if n < length {
			ref.UnpackRun(r.a, at+n, at+length, dst+at-from+n, r.scales[s.index], r.least[m.index])
			n = length
		}
		at += n
	}
}

// A place is where an element lies among blocks.
type place struct {
	index, start, end, size int
}

// whole reports whether blocks begin at an element and have a length.
func (p place) whole(at, length int) bool { return p.start == at && p.size == length }

// block is the block of element at of a stretch that ends at to. Minima that are absent are one block.
func (r *run) block(b kernels.Blocks, at, to int) place {
	cols := r.a.Dst.Cols
	switch {
	case b.Values.Empty() || b.Rows == 0 && b.Across == 0 && b.Flat == 0:
		return place{end: to}
	case b.Flat > 0:
		i := at / b.Flat
		return place{i, i * b.Flat, min((i+1)*b.Flat, to), b.Flat}
	}
	row, column := at/cols, at%cols
	p := place{index: b.At(row, column, cols), end: to}
	if b.Across > 0 {
		p.start = at - column%b.Across
		p.end, p.size = min(p.start+b.Across, to), b.Across
	}
	return p
}

// whole is how many of n codes from one on a kernel takes: none of 4 bits from the middle of a byte on.
func (r *run) whole(at, n int) int {
	if r.f == nil || r.a.Bits == 4 && at%2 == 1 {
		return 0
	}
	return n / group * group
}

// call unpacks blocks of n codes, and returns how many codes that were: the length of a block at least, where that is
// not longer than a call takes.
func (r *run) call(s, m place, at, dst, n, blocks int) int {
	codes := r.a.Codes.Raw()
	for done := 0; done < n*blocks; {
		part, count := n, blocks
		if n > longest { // of one block
			part, count = min(longest, n-done), 1
		}
		r.codes = unsafe.Pointer(&codes[(at+done)*r.a.Bits/8])
		r.dst = unsafe.Pointer(&r.a.Dst.Raw()[(dst+done)*r.size])
		r.scale, r.min = unsafe.Pointer(&r.scales[s.index]), unsafe.Pointer(&r.least[m.index])
		r.scaleStep, r.minStep = step(s, n, blocks), step(m, n, blocks)
		r.blocks, r.groups = count, part/group
		r.f(&r.job)
		done += part * count
	}
	return n * blocks
}

// step is how far a block's number lies from the next one's.
func step(p place, n, blocks int) int {
	if blocks > 1 && p.size == n {
		return 4
	}
	return 0
}

// pick is one of a path's kernels: of 4 bits to f32, bf16 and f16, and of 8.
func pick(bits int, to kernels.DType, all [6]func(*job)) func(*job) {
	i := bits / 8 * 3
	switch to {
	case kernels.BF16:
		i++
	case kernels.F16:
		i += 2
	}
	return all[i]
}
