package rows

import (
	"sync"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Parallel calls task(0) ... task(n-1), in any order and at the same time, and
// returns when all are done.
type Parallel func(n int, task func(i int))

// Engine runs operations on one path. It holds scratch memory that its calls reuse;
// calls may overlap.
type Engine struct {
	set     *set // nil: the loops of ref
	past    int  // pastCaches; less in tests
	scratch sync.Pool
}

// New makes an engine for a path.
func New(p isa.Path) *Engine {
	return &Engine{set: setOf(p), past: pastCaches, scratch: sync.Pool{New: func() any { return new(work) }}}
}

// begin lends a worker's scratch; end gives it back.
func (e *Engine) begin() *work {
	w := e.scratch.Get().(*work)
	w.set = e.set
	return w
}

func (w *work) end(e *Engine) {
	w.job = job{} // no pointer into an operand stays behind
	e.scratch.Put(w)
}

// work is the memory of one goroutine: a job for kernels, and rows of fp32.
type work struct {
	job
	set     *set
	rows    [10][]float32
	moments []ref.Moments   // of blocks
	groups  [][]ref.Moments // the same, by group
}

// row is scratch of n numbers; its content is its last user's.
func (w *work) row(slot, n int) []float32 {
	if len(w.rows[slot]) < n {
		w.rows[slot] = make([]float32, max(n, longest))
	}
	return w.rows[slot][:n]
}

// filled is scratch of n equal numbers.
func (w *work) filled(slot, n int, x float32) []float32 {
	v := w.row(slot, n)
	for i := range min(n, 16) {
		v[i] = x
	}
	for at := 16; at < n; at *= 2 {
		copy(v[at:], v[:at])
	}
	return v
}

// operand is memory of one type from an element on.
type operand struct {
	p unsafe.Pointer
	d kernels.DType
}

// from is elements i and up of a span.
func from(s kernels.Span, i int) operand {
	if s.DType == kernels.BF16 {
		return operand{unsafe.Pointer(&s.BF16()[i]), kernels.BF16}
	}
	return operand{unsafe.Pointer(&s.F32()[i]), kernels.F32}
}

func rowOf(m kernels.Mat, r int) operand { return from(m.Span, r*m.Stride) }

func own(x []float32) operand { return operand{unsafe.Pointer(&x[0]), kernels.F32} }

func (o operand) at(i int) operand {
	return operand{unsafe.Add(o.p, i*o.d.Size()), o.d}
}

func index(d kernels.DType) int {
	if d == kernels.BF16 {
		return 1
	}
	return 0
}

func (w *work) kernel(k kernel, in, out kernels.DType) func(*job) {
	return w.set[k][index(in)][index(out)]
}

// longest is the number of elements of one call of an element-wise kernel: a few
// microseconds, in which the collector cannot stop the goroutine, and rows that fit L1.
const longest = 4096

// apply runs an element-wise kernel over n elements. Where it does not know the
// types, operands are widened and the result is rounded on the way.
func (w *work) apply(k kernel, n int, dst operand, src ...operand) {
	in := src[0].d
	for _, s := range src[1:] {
		if s.d != in {
			in = kernels.F64 // mixed
		}
	}
	var f func(*job)
	if in != kernels.F64 && (k != actIdentity || !w.casts(in, dst.d)) {
		f = w.kernel(k, in, dst.d)
	}
	for at := 0; at < n; at += longest {
		m := min(longest, n-at)
		if f != nil {
			w.call(f, m, dst.at(at), src, at)
			continue
		}
		var wide [7]operand
		for i, s := range src {
			wide[i] = w.widened(wideSlot+i, s.at(at), m)
		}
		to := dst.at(at)
		if dst.d != kernels.F32 {
			to = own(w.row(wideSlot, m))
		}
		w.call(w.kernel(k, kernels.F32, kernels.F32), m, to, wide[:len(src)], 0)
		if dst.d != kernels.F32 {
			w.store(dst.at(at), to, m)
		}
	}
}

// wideSlot is the first of the rows that widened operands take.
const wideSlot = 6

func (w *work) call(f func(*job), n int, dst operand, src []operand, at int) {
	for i, s := range src {
		w.src[i] = s.at(at).p
	}
	w.dst, w.n = dst.p, n
	f(&w.job)
}

// widened is n elements in fp32: where they are, or in a row of scratch.
func (w *work) widened(slot int, s operand, n int) operand {
	if s.d == kernels.F32 {
		return s
	}
	row := w.row(slot, n)
	w.load(row, s)
	return own(row)
}

// load is ref.Load: elements in fp32, in memory of the caller's.
func (w *work) load(dst []float32, s operand) {
	f := w.kernel(actIdentity, s.d, kernels.F32)
	n := w.whole(len(dst), s.d)
	if n > 0 {
		w.call(f, n, own(dst), []operand{s}, 0)
	}
	if n < len(dst) {
		for i, h := range unsafe.Slice((*uint16)(s.at(n).p), len(dst)-n) {
			dst[n+i] = ref.Flush(ref.FromBF16(h))
		}
	}
}

// store is ref.Store.
func (w *work) store(dst, src operand, n int) {
	f := w.kernel(actIdentity, kernels.F32, dst.d)
	m := w.whole(n, dst.d)
	if m > 0 {
		w.call(f, m, dst, []operand{src}, 0)
	}
	if m < n {
		to := unsafe.Slice((*uint16)(dst.at(m).p), n-m)
		for i, x := range unsafe.Slice((*float32)(src.at(m).p), n-m) {
			to[i] = ref.ToBF16(x)
		}
	}
}

// whole is how many of n elements a kernel that casts takes: AVX2 has no masks for
// bf16, and stops at blocks of 64.
func (w *work) whole(n int, d kernels.DType) int {
	if w.casts(d, d) {
		return n &^ 63
	}
	return n
}

// casts says whether a kernel that casts between such types takes whole blocks alone.
func (w *work) casts(in, out kernels.DType) bool {
	return (in == kernels.BF16 || out == kernels.BF16) && w.kernel(actIdentity, kernels.BF16, kernels.BF16) == nil
}

// known is an operand as a kernel knows it: its own memory, or widened into slot.
func (w *work) known(k kernel, slot int, s operand, n int) operand {
	if w.kernel(k, s.d, kernels.F32) != nil {
		return s
	}
	return w.widened(slot, s, n)
}

// sum runs a kernel that adds, or takes the maximum, and returns its total.
func (w *work) sum(k kernel, n int, src ...operand) float32 {
	w.call(w.kernel(k, src[0].d, kernels.F32), n, operand{}, src, 0)
	return w.total
}

// sumOf is the sum of a row, and the row in fp32: where it is, or widened on the way.
func (w *work) sumOf(slot int, x operand, n int) (operand, float32) {
	if f := w.kernel(sumWide, x.d, kernels.F32); f != nil {
		wide := own(w.row(slot, n))
		w.call(f, n, wide, []operand{x}, 0)
		return wide, w.total
	}
	x = w.widened(slot, x, n)
	return x, w.sum(sum, n, x)
}

// columns adds down the rows of n columns to acc. strides are in elements.
func (w *work) columns(k kernel, acc []float32, rows int, src []operand, strides []int) {
	n := len(acc)
	same := len(src) == 1 || src[0].d == src[1].d
	f := w.kernel(k, src[0].d, kernels.F32)
	if !same || f == nil {
		for r := range rows {
			var wide [2]operand
			for i, s := range src {
				wide[i] = w.widened(wideSlot+i, s.at(r*strides[i]), n)
			}
			w.job.rows = 1
			w.call(w.kernel(k, kernels.F32, kernels.F32), n, own(acc), wide[:len(src)], 0)
		}
		return
	}
	most := max(1, 1<<16/n)
	for r := 0; r < rows; r += most {
		var at [2]operand
		for i, s := range src {
			at[i] = s.at(r * strides[i])
			w.stride[i] = strides[i] * s.d.Size()
		}
		w.job.rows = min(most, rows-r)
		w.call(f, n, own(acc), at[:len(src)], 0)
	}
}

// kernel names a loop of assembly; names.go lists them.
type kernel int

// set is a path's kernels by types: [kernel][in is bf16][out is bf16].
type set [kernelCount][2][2]func(*job)

// job is the argument of a kernel.
type job struct {
	src    [7]unsafe.Pointer
	dst    unsafe.Pointer
	n      int        // elements of a row
	rows   int        // of a loop down the rows: at least 1
	places int        // of a depthwise convolution
	stride [3]int     // the same, of sources 0 and 1, and of dst: bytes
	s      [8]float32 // numbers that every element takes part with
	total  float32    // the result of a sum

	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was, on path NEON (package neon)
}
