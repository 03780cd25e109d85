//go:build amd64 && !noasm

package attention

import (
	"math"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

//go:generate go run ./gen

// pathOf chooses the passes of a path.
func pathOf(at isa.Path, m kernels.Math, b gemm.Blocks) path {
	p := goPath(m, b)
	switch {
	case at < isa.AVX2:
		return p
	case at < isa.AVX512:
		p.end, p.weigh, p.grade = endAVX2, weighF32AVX2, gradeF32AVX2
		p.dots = dotsBy(8, [2]dotRows{dotRowsF32AVX2, dotRowsBF16AVX2})
		if m == kernels.MathBF16 {
			p.weigh, p.grade = weighBF16AVX2, gradeBF16AVX2
		}
		return p
	}
	p.end, p.dots = end512, dotsBy(1, [2]dotRows{dotRowsF32, dotRowsBF16})
	switch {
	case m == kernels.MathF32:
		p.weigh, p.grade = weighF32, gradeF32
	case at < isa.BF16:
		p.weigh, p.grade = weighWide, gradeWide
	default:
		p.weigh, p.grade, p.lined = weighBF16, gradeBF16, true
	}
	return p
}

type dotRows = func(dst, x, y unsafe.Pointer, xStride, yStride, rows, units int)

// dotsBy is dotsGo by kernels for F32 and BF16, where dO and O are of one type and rows of whole units.
func dotsBy(unit int, dots [2]dotRows) func(*backward, int) {
	return func(f *backward, h int) {
		if f.DO.DType != f.O.DType || f.Q.S == 0 || f.O.D%unit != 0 {
			dotsGo(f, h)
			return
		}
		n := f.O.DType.Size()
		x, y := unsafe.Pointer(&f.DO.Raw()[f.DO.At(f.b, 0, h)*n]), unsafe.Pointer(&f.O.Raw()[f.O.At(f.b, 0, h)*n])
		dots[f.O.DType](unsafe.Pointer(&f.delta[0]), x, y, f.DO.SS*n, f.O.SS*n, f.Q.S, f.O.D/unit)
	}
}

// endAVX2 is weighing.end: the logarithms in plain Go, O in vectors.
func endAVX2(w *weighing, rows int) {
	var keep [queries]uint32
	for i := range queries {
		w.r[i], w.lse[i] = 0, minusInf
		if w.l[i] != 0 {
			w.r[i], w.lse[i], keep[i] = ref.Div(1, w.l[i]), ref.FMA(ref.Log(w.l[i]), ref.Log2E, w.m[i]), math.MaxUint32
		}
	}
	scaleAVX2(w.o, unsafe.Pointer(&w.r), unsafe.Pointer(&keep), rows)
}

//go:noescape
func weighF32AVX2(w *weighing)

//go:noescape
func weighBF16AVX2(w *weighing)

//go:noescape
func gradeF32AVX2(x *grading)

//go:noescape
func gradeBF16AVX2(x *grading)

//go:noescape
func scaleAVX2(o, r, keep unsafe.Pointer, rows int)

//go:noescape
func dotRowsF32AVX2(dst, x, y unsafe.Pointer, xStride, yStride, rows, eights int)

//go:noescape
func dotRowsBF16AVX2(dst, x, y unsafe.Pointer, xStride, yStride, rows, eights int)

//go:noescape
func dotRowsF32(dst, x, y unsafe.Pointer, xStride, yStride, rows, d int)

//go:noescape
func dotRowsBF16(dst, x, y unsafe.Pointer, xStride, yStride, rows, d int)

//go:noescape
func gradeF32(x *grading)

//go:noescape
func gradeBF16(x *grading)

//go:noescape
func gradeWide(x *grading)

//go:noescape
func end512(w *weighing, rows int)

//go:noescape
func weighF32(w *weighing)

//go:noescape
func weighBF16(w *weighing)

//go:noescape
func weighWide(w *weighing)

// ropesOf are the rope kernels of a path.
func ropesOf(at isa.Path) ropes {
	switch {
	case at < isa.AVX2:
		return ropes{}
	case at < isa.AVX512:
		return ropes{step: 8, of: [2][2]func(*turning){
			kernels.RopeInterleaved: {ropeInterleavedF32AVX2, ropeInterleavedBF16AVX2},
			kernels.RopeHalves:      {ropeHalvesF32AVX2, ropeHalvesBF16AVX2},
		}}
	}
	return ropes{step: 1, of: [2][2]func(*turning){
		kernels.RopeInterleaved: {ropeInterleavedF32, ropeInterleavedBF16},
		kernels.RopeHalves:      {ropeHalvesF32, ropeHalvesBF16},
	}}
}

//go:noescape
func ropeInterleavedF32(t *turning)

//go:noescape
func ropeInterleavedBF16(t *turning)

//go:noescape
func ropeHalvesF32(t *turning)

//go:noescape
func ropeHalvesBF16(t *turning)

//go:noescape
func ropeInterleavedF32AVX2(t *turning)

//go:noescape
func ropeInterleavedBF16AVX2(t *turning)

//go:noescape
func ropeHalvesF32AVX2(t *turning)

//go:noescape
func ropeHalvesBF16AVX2(t *turning)
