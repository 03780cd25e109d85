//go:build arm64 && !noasm

package attention

import (
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
	if at != isa.NEON {
		return p
	}
	p.apart, p.whole = true, m == kernels.MathBF16
	p.end, p.dots = endNEON, dotsNEON
	weigh, grade := weighF32NEON, gradeF32NEON
	if m == kernels.MathBF16 {
		weigh, grade = weighBF16NEON, gradeBF16NEON
	}
	p.weigh = func(w *weighing) { w.watched(m, weigh) }
	p.grade = func(g *grading) { g.watched(m, grade) }
	return p
}

// watched runs a pass, and rescales O; plain Go does over what flushed a result.
func (w *weighing) watched(m kernels.Math, fast func(*weighing)) {
	before, sum := w.m, w.l
	w.flushed, w.changed = 0, 0
	if fast(w); w.flushed == 0 {
		if w.changed != 0 {
			w.scaleNEON(w.dv)
		}
		return
	}
	w.m, w.l = before, sum
	w.weigh(m)
	rowsOfA(w.p, w.s, w.keys, m, false)
	if m == kernels.MathBF16 {
		clear(floats(w.p, roundUp(w.keys, 32)*queries)[w.keys*queries:])
	}
}

// scaleNEON is scale.
func (w *weighing) scaleNEON(rows int) {
	o := floats(w.o, rows*queries)
	w.kept = append(w.kept[:0], o...)
	if rescaleNEON(w.o, unsafe.Pointer(&w.r), rows) != 0 {
		copy(o, w.kept)
		w.scale(rows)
	}
}

// endNEON is weighing.end.
func endNEON(w *weighing, rows int) {
	empty := false
	for i := range queries {
		w.r[i], w.lse[i] = 0, minusInf
		if w.l[i] != 0 {
			w.r[i], w.lse[i] = ref.Div(1, w.l[i]), ref.FMA(ref.Log(w.l[i]), ref.Log2E, w.m[i])
		} else {
			empty = true
		}
	}
	w.scaleNEON(rows)
	if !empty {
		return
	}
	o := floats(w.o, rows*queries)
	for i := range o {
		if w.l[i%queries] == 0 { // also where a hidden value was infinite
			o[i] = 0
		}
	}
}

// watched runs a pass; plain Go does over what flushed a result.
func (g *grading) watched(m kernels.Math, fast func(*grading)) {
	g.flushed = 0
	if fast(g); g.flushed == 0 {
		return
	}
	g.grade(m)
	rowsOfA(g.p, g.s, g.keys, m, true)
	rowsOfA(g.panel, g.g, g.keys, m, false)
	if m == kernels.MathBF16 {
		rowsOfA(g.d, g.g, g.keys, m, true)
		clear(floats(g.panel, roundUp(g.keys, 32)*queries)[g.keys*queries:])
	}
}

// rowsOfA copies rows of 32; in bf16 they are rounded, and as a product's A the even ones come
// first.
func rowsOfA(dst, src unsafe.Pointer, rows int, m kernels.Math, a bool) {
	to, from := floats(dst, rows*queries), floats(src, rows*queries)
	if m == kernels.MathF32 {
		copy(to, from)
		return
	}
	for i, x := range from {
		j := i % queries
		if a {
			j = j/2 + j%2*queries/2
		}
		to[i-i%queries+j] = ref.RoundBF16(x)
	}
}

// dotsNEON is dotsGo, where dO and O are of one type and rows of whole vectors.
func dotsNEON(f *backward, h int) {
	if f.DO.DType != f.O.DType || f.V.D%4 != 0 {
		dotsGo(f, h)
		return
	}
	dot, n := dotF32NEON, f.O.DType.Size()
	if f.O.DType == kernels.BF16 {
		dot = dotBF16NEON
	}
	x, y := f.x[:f.V.D], f.y[:f.V.D]
	for i := range f.Q.S {
		at, to := f.DO.At(f.b, i, h), f.O.At(f.b, i, h)
		sum, flushed := dot(unsafe.Pointer(&f.DO.Raw()[at*n]), unsafe.Pointer(&f.O.Raw()[to*n]), f.V.D/4)
		if flushed != 0 {
			ref.Load(x, f.DO.Span, at)
			ref.Load(y, f.O.Span, to)
			sum = ref.Dot(x, y)
		}
		f.delta[i] = sum
	}
}

//go:noescape
func weighF32NEON(w *weighing)

//go:noescape
func weighBF16NEON(w *weighing)

//go:noescape
func gradeF32NEON(x *grading)

//go:noescape
func gradeBF16NEON(x *grading)

//go:noescape
func rescaleNEON(o, r unsafe.Pointer, rows int) (flushed int)

//go:noescape
func dotF32NEON(x, y unsafe.Pointer, vectors int) (dot float32, flushed int)

//go:noescape
func dotBF16NEON(x, y unsafe.Pointer, vectors int) (dot float32, flushed int)
