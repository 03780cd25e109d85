//go:build arm64 && !noasm

package attention

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// ropesOf are the rope kernels of a path.
func ropesOf(at isa.Path) ropes {
	if at != isa.NEON {
		return ropes{}
	}
	all := ropes{step: 1}
	for kind, fast := range map[kernels.RopeKind][2]func(*turning){
		kernels.RopeInterleaved: {ropeInterleavedF32NEON, ropeInterleavedBF16NEON},
		kernels.RopeHalves:      {ropeHalvesF32NEON, ropeHalvesBF16NEON},
	} {
		for d := range fast {
			all.of[kind][d] = func(t *turning) { t.watched(kind, kernels.DType(d), fast[d]) }
		}
	}
	return all
}

// watched runs a kernel; plain Go does over what flushed a result, and pairs that are no
// multiple of four.
func (t *turning) watched(kind kernels.RopeKind, d kernels.DType, fast func(*turning)) {
	x := *t
	n := 2 * t.pairs * d.Size()
	if t.x == t.y && t.pairs%4 == 0 { // in place: what it was is kept
		kept := make([]byte, t.heads*n)
		for h := range t.heads {
			copy(kept[h*n:(h+1)*n], unsafe.Slice((*byte)(unsafe.Add(t.x, h*t.xStride)), n))
		}
		x.x, x.xStride = unsafe.Pointer(&kept[0]), n
	}
	if t.pairs%4 == 0 {
		t.flushed = 0
		if fast(t); t.flushed == 0 {
			return
		}
	}
	x.turn(kind, d)
}

// turn is Rope of the heads of one token by its definition.
func (t *turning) turn(kind kernels.RopeKind, d kernels.DType) {
	cos, sin := floats(t.cos, t.pairs), floats(t.sin, t.pairs)
	row := make([]float32, 2*t.pairs)
	span := func(p unsafe.Pointer) kernels.Span {
		return kernels.Span{Buf: &kernels.Buffer{Host: unsafe.Slice((*byte)(p), len(row)*d.Size())}, Len: len(row), DType: d}
	}
	for h := range t.heads {
		ref.Load(row, span(unsafe.Add(t.x, h*t.xStride)), 0)
		for i := range t.pairs {
			p, q := 2*i, 2*i+1
			if kind == kernels.RopeHalves {
				p, q = i, i+t.pairs
			}
			c, s := ref.Flush(cos[i]), ref.Flush(sin[i])
			if t.sign != 0 {
				s = -s
			}
			u, v := row[p], row[q]
			row[p], row[q] = ref.FMA(u, c, -ref.Mul(v, s)), ref.FMA(v, c, ref.Mul(u, s))
		}
		ref.Store(span(unsafe.Add(t.y, h*t.yStride)), 0, row)
	}
}

//go:noescape
func ropeInterleavedF32NEON(t *turning)

//go:noescape
func ropeInterleavedBF16NEON(t *turning)

//go:noescape
func ropeHalvesF32NEON(t *turning)

//go:noescape
func ropeHalvesBF16NEON(t *turning)
