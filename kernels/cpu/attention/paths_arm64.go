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

// watched runs a pass, and rescales O; plain Go does over flushed results.
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

// watched runs a pass; plain Go does over flushed results.
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

// watched runs a kernel; plain Go does over flushed results, and pairs that are not a multiple of four.
func (t *turning) watched(kind kernels.RopeKind, d kernels.DType, fast func(*turning)) {
	x := *t
	n := 2 * t.pairs * d.Size()
	if t.x == t.y && t.pairs%4 == 0 { // in place: the old values are kept
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
