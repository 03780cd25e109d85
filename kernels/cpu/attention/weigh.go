package attention

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// weighing is what happens to a block of scores between its two products: the step
// m', r, l, p of ref.Attention, for 32 queries at once. Padding queries are computed
// like others, and ignored.
type weighing struct {
	s, p, o unsafe.Pointer // [keys][32] fp32; the panel of P, or s itself in f32; [dv][32] fp32
	keys    int
	dv      int
	c       float32
	m, l, r [queries]float32
	lse     [queries]float32

	// Path NEON's alone.
	width int // bytes of a row of scores that are wanted: 64 or 128
	//lint:ignore U1000 assembly for arm64 writes it
	changed int // other than 0: O is to be rescaled
	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was (package neon)
	//lint:ignore U1000 the passes of arm64 use it
	kept []float32
}

func (w *weighing) start(f *forward, n int) {
	w.s, w.p, w.o, w.dv = f.s, f.p, f.o, f.V.D
	w.width = rowBytes(n)
	for i := range queries {
		w.m[i], w.l[i], w.r[i] = minusInf, 0, 1
	}
	clear(floats(w.o, roundUp(w.dv, 32)*queries))
}

// end makes O and LSE of what was added up.
func (w *weighing) end(rows int) {
	for i := range queries {
		w.r[i], w.lse[i] = 0, minusInf
		if w.l[i] != 0 {
			w.r[i], w.lse[i] = ref.Div(1, w.l[i]), ref.FMA(ref.Log(w.l[i]), ref.Log2E, w.m[i])
		}
	}
	w.scale(rows)
	o := floats(w.o, rows*queries)
	for i := range o {
		if w.l[i%queries] == 0 { // also where a hidden value was infinite
			o[i] = 0
		}
	}
}

// scale multiplies O with r.
func (w *weighing) scale(rows int) {
	o := floats(w.o, rows*queries)
	for i := range o {
		o[i] = ref.Mul(o[i], w.r[i%queries])
	}
}

// rowBytes are those of a row of 32 numbers that n queries need.
func rowBytes(n int) int {
	if n <= queries/2 {
		return queries * 2
	}
	return queries * 4
}

// run is the pass in plain Go, and panelGo what packs its weights.
func (w *weighing) run(m kernels.Math) {
	w.weigh(m)
	if m == kernels.MathBF16 {
		panelGo(w.p, floats(w.s, w.keys*queries))
	}
}

// weigh leaves weights where the scores were.
func (w *weighing) weigh(m kernels.Math) {
	exp2 := ref.Exp2
	if m == kernels.MathBF16 {
		exp2 = ref.Exp2Short
	}
	s := floats(w.s, w.keys*queries)
	changed := false
	for i := range queries {
		most := minusInf
		for j := i; j < len(s); j += queries {
			most = ref.Max(s[j], most)
		}
		next := ref.Max(ref.Mul(most, w.c), w.m[i])
		w.r[i] = 1
		if next != w.m[i] {
			w.r[i] = exp2(ref.Sub(w.m[i], next))
			changed = true
		}
		w.m[i], w.l[i] = next, ref.Mul(w.l[i], w.r[i])
		base := next
		if base == minusInf {
			base = 0
		}
		for j := i; j < len(s); j += queries {
			s[j] = exp2(ref.FMA(s[j], w.c, -base))
			w.l[i] = ref.Add(w.l[i], s[j])
		}
	}
	if changed {
		w.scale(w.dv)
	}
}

// panelGo packs rows of 32 into a paired panel, zeros after the last.
func panelGo(dst unsafe.Pointer, s []float32) {
	rows := len(s) / queries
	p := unsafe.Slice((*uint16)(dst), roundUp(rows, 32)*queries)
	for k := range roundUp(rows, 32) {
		for c := range queries {
			x := float32(0)
			if k < rows {
				x = s[k*queries+c]
			}
			p[((k&^3)/2+k&1)*2*queries+c*2+1-k>>1&1] = ref.ToBF16(x)
		}
	}
}
