//go:build arm64 && !noasm

package gemm

import (
	"sync"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Where a kernel flushed a result that ref may have rounded up (package neon), the rows
// concerned are computed again: six at a time, so that few of them go by plain Go.

// scratch is a call's memory beside its operands.
type scratch struct {
	wide [neonChunk * panel]float32 // a chunk of a panel
	kept []float32                  // C as it was
}

// scratches are those not in use.
type scratches struct{ pool sync.Pool }

func (p *scratches) take() *scratch {
	if s, ok := p.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

func (p *scratches) put(s *scratch) { p.pool.Put(s) }

// keep copies rows of C.
func (s *scratch) keep(c []float32) []float32 {
	if len(s.kept) < len(c) {
		s.kept = make([]float32, len(c)+len(c)/2)
	}
	copy(s.kept, c)
	return s.kept[:len(c)]
}

// chain is the definition of a block kernel: v goes on over steps, each of some k, of a packed
// row and of the panel's column.
type chain struct {
	k    int // of a step
	over func(v float32, a, b []float32, steps int) float32
}

var chainF32, chainsBF16 = chain{1, overF32}, chain{32, overBF16}

// exactly runs block kernels, and chain where they flushed something.
func (p *scratches) exactly(b *block, rows int, kernels []func(*block), f chain) {
	if rows == 0 || b.steps == 0 {
		return
	}
	all, most := *b, len(kernels)-1
	var kept []float32
	s := p.take()
	c := unsafe.Slice((*float32)(pointerAt(all.c)), rows*panel)
	if all.start != 0 {
		kept = s.keep(c)
	}
	b.flushed = 0
	if b.over(rows, most, kernels); b.flushed != 0 {
		for r := 0; r < rows; r += most {
			*b = all
			n := min(most, rows-r)
			b.c += uintptr(r * panel * 4)
			b.a += uintptr(r) * b.lda
			part := c[r*panel : (r+n)*panel]
			if kept != nil {
				copy(part, kept[r*panel:])
			}
			again := *b
			b.flushed = 0
			if b.over(n, most, kernels); b.flushed == 0 {
				continue
			}
			if kept != nil {
				copy(part, kept[r*panel:])
			}
			again.plain(part, n, f)
		}
	}
	p.put(s)
}

// plain is a block kernel by its definition.
func (b *block) plain(c []float32, rows int, f chain) {
	columns := panel
	if b.narrow {
		columns = panel / 2
	}
	k := b.steps * f.k
	panelOfB := unsafe.Slice((*float32)(pointerAt(b.b)), k*panel)
	for r := range rows {
		a := unsafe.Slice((*float32)(pointerAt(b.a+uintptr(r)*b.lda)), k)
		for j := range columns {
			v := float32(0)
			if b.start != 0 {
				v = c[r*panel+j]
			}
			c[r*panel+j] = f.over(v, a, panelOfB[j:], b.steps)
		}
	}
}

// overF32 goes over steps of one k, in their order.
func overF32(v float32, a, b []float32, steps int) float32 {
	for k := range steps {
		v = ref.FMA(a[k], b[k*panel], v)
	}
	return v
}

// overBF16 goes over steps of 32 k, whose even numbers come before the odd ones in a.
func overBF16(v float32, a, b []float32, steps int) float32 {
	for s := range steps {
		var sums [2]float32
		for odd := range 2 {
			for i := range 16 {
				sums[odd] = ref.FMA(a[32*s+16*odd+i], b[(32*s+2*i+odd)*panel], sums[odd])
			}
		}
		v = ref.Add(v, ref.Add(sums[0], sums[1]))
	}
	return v
}

// pointerAt is the pointer that an address of a block stands for.
func pointerAt(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
