package attention

import (
	"math"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// forward is one key head of one sample, with the memory that it works in.
type forward struct {
	*kernels.Attention
	path
	b, kh, keys        int
	kRows, vRows       int // bytes
	k, v               unsafe.Pointer
	memory             [8]part
	q, s, p, o, tile   unsafe.Pointer
	scratch, constants unsafe.Pointer
	w                  weighing
	job                gemm.Job
}

// forward packs the head's keys and values.
func (e *Engine) forward(a *kernels.Attention, p path, b, kh int) *forward {
	f, ok := e.arenas.Get().(*forward)
	if !ok {
		f = &forward{}
	}
	f.Attention, f.path, f.b, f.kh, f.keys = a, p, b, kh, ref.Keys(a, b)
	f.scratch = f.memory[0].at(gemm.Scratch)
	f.kRows, f.vRows = p.RowBytes(a.K.D), p.RowBytes(f.keys)
	f.k, f.v = f.memory[1].at(p.BlockBytes(f.keys, a.K.D)), f.memory[2].at(p.BlockBytes(a.V.D, f.keys))
	f.PackRows(f.k, f.scratch, gemm.HeadLines(a.K, b, kh, false), 0, f.keys, a.K.D)
	f.PackRows(f.v, f.scratch, gemm.HeadLines(a.V, b, kh, true), 0, a.V.D, f.keys)
	f.q = f.memory[3].at(p.PanelBytes(a.Q.D))
	f.s = f.memory[4].at(kernels.KeyBlock * queries * 4)
	f.p = f.s
	switch {
	case p.apart:
		f.p = f.memory[5].at(kernels.KeyBlock * queries * 4)
	case p.math == kernels.MathBF16:
		f.p = f.memory[5].at(kernels.KeyBlock * queries * 2)
	}
	f.o = f.memory[6].at(roundUp(a.V.D, 32) * queries * 4)
	f.tile = f.memory[7].at(32*queries*4 + 128)
	f.constants = unsafe.Add(f.tile, 32*queries*4)
	for i := range 32 { // changes no number, not even -0
		floats(f.constants, 32)[i] = float32(math.Copysign(0, -1))
	}
	return f
}

// block computes block j of the queries that read the head.
func (f *forward) block(j int) {
	blocks := (f.Q.S + queries - 1) / queries
	h, i0 := f.kh*(f.Q.H/f.K.H)+j/blocks, j%blocks*queries
	n := min(queries, f.Q.S-i0)
	f.PackPanel(f.q, f.scratch, gemm.HeadLines(f.Q, f.b, h, false), i0, n, f.Q.D)
	w := &f.w
	w.start(f, n)
	f.job.Narrow = n <= queries/2
	reach := ref.Reach(f.Attention, f.b, i0)
	for k0 := 0; k0 < reach; k0 += kernels.KeyBlock {
		keys := min(kernels.KeyBlock, f.keys-k0)
		f.Run(&f.job, f.s, unsafe.Add(f.k, k0*f.kRows), f.q, f.kRows, keys, 0, f.Q.D, false)
		if f.Q.D == 0 {
			clear(floats(f.s, keys*queries))
		}
		w.c = ref.Mul(f.Scale, ref.Log2E)
		if shift(f.Attention, f.s, f.b, h, i0, n, k0, keys) {
			w.c = 1
		}
		w.keys = keys
		f.weigh(w)
		f.Run(&f.job, f.o, f.v, f.p, f.vRows, f.V.D, k0, keys, k0 > 0)
	}
	f.finish(h, i0, n, reach > 0)
}

// shift adds the bias to scores and hides the keys that are not seen; it says whether
// there is a bias.
func shift(a *kernels.Attention, s unsafe.Pointer, b, h, i0, n, k0, keys int) bool {
	bias := !a.Bias.Empty()
	hidden := a.Causal && ref.Seen(a, b, i0) < k0+keys
	if !bias && !hidden {
		return false
	}
	z := floats(s, keys*queries)
	if bias {
		c, row := ref.Mul(a.Scale, ref.Log2E), make([]float32, keys)
		for i := range n {
			ref.Load(row, a.Bias.Span, b*a.Bias.SB+h*a.Bias.SH+(i0+i)*a.Bias.SQ+k0)
			for j, x := range row {
				z[j*queries+i] = ref.FMA(z[j*queries+i], c, ref.Mul(x, ref.Log2E))
			}
		}
	}
	if hidden {
		for i := range n {
			hide(a, z, b, i0, i, k0, keys, minusInf)
		}
	}
	return bias
}

// hide sets the scores of query i0+i for keys that it does not see to x.
func hide(a *kernels.Attention, z []float32, b, i0, i, k0, keys int, x float32) {
	for j := max(0, ref.Seen(a, b, i0+i)-k0); j < keys; j++ {
		z[j*queries+i] = x
	}
}

// finish writes O and LSE of a block of queries.
func (f *forward) finish(h, i0, n int, any bool) {
	if !any {
		clear(floats(f.o, roundUp(f.V.D, 32)*queries))
	}
	f.end(&f.w, f.V.D)
	out := gemm.HeadLines(f.O, f.b, h, false)
	for d := 0; d < f.V.D; d += 32 {
		f.Turn(f.tile, unsafe.Add(f.o, d*queries*4))
		f.Store(out, i0, n, d, min(32, f.V.D-d), f.tile, f.constants)
	}
	if !f.LSE.Empty() {
		copy(f.LSE.F32()[(f.b*f.Q.H+h)*f.Q.S+i0:][:n], f.w.lse[:])
	}
}

// weighing is the pass over a block of scores between its two products: the step m', r, l, p of ref.Attention, for 32
// queries at once. Padding queries are computed like others, and ignored.
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

// end makes O and LSE of the sums.
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

// run is the pass in plain Go, and panelGo packs its weights.
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
