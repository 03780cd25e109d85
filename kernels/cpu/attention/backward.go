package attention

import (
	"math"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// The backward, for one key head of one sample:
//
//	for each query head that reads it, for each block of keys, for each 32 queries:
//	    S = K·Qᵀ, G = V·dOᵀ
//	    grade             P = exp2(c·S - LSE), dS = P·(G - Delta)·Scale
//	    dV += P·dO        rows of P over 32 queries, panels of dO
//	    dK += dS·Q
//	    dQᵀ += Kᵀ·dS      as in the forward
//
// S and G are made once for all three; each sum has its one order (queries ascending
// in dK and dV, keys ascending in dQ), so that no other pass is needed to fix it.
type backward struct {
	*kernels.AttentionBackward
	path
	b, kh, keys, blocks   int // blocks of queries
	kRows, vRows, ktRows  int // bytes
	memory                [16]part
	k, v, kt              unsafe.Pointer
	q, do, qx, dox        unsafe.Pointer // panels of 32 queries, and panels over the queries
	qPanel, doPanel, over int            // bytes
	dq, dk, dv            unsafe.Pointer // dQᵀ by block; [panel][keys of a block][32]
	dkSum, dvSum          unsafe.Pointer // [panel][keys][32], where heads are added
	delta, shift          []float32
	x, y                  []float32
	tile, zeros, scratch  unsafe.Pointer
	g                     grading
	job                   gemm.Job
}

// AttentionBackward computes the backward.
func (e *Engine) AttentionBackward(a *kernels.AttentionBackward, par gemm.Parallel) {
	p, ok := e.paths[a.Math]
	ref.Attention(&a.Attention, 0, 0) // the check of shapes
	if !ok || !plain(&a.Attention) {
		n, heads := a.Q.B*a.Q.H*a.Q.S, a.K.B*a.K.H
		tasks := min(n, 4*e.threads)
		par(tasks, func(i int) { ref.AttentionBackwardQueries(a, i*n/tasks, (i+1)*n/tasks) })
		par(heads, func(i int) { ref.AttentionBackwardKeys(a, i, i+1) })
		return
	}
	par(a.K.B*a.K.H, func(i int) {
		f, ok := e.gradients.Get().(*backward)
		if !ok {
			f = &backward{}
		}
		f.AttentionBackward, f.path = a, p
		f.run(i/a.K.H, i%a.K.H)
		f.AttentionBackward = nil
		e.gradients.Put(f)
	})
}

func panels(d int) int { return (d + queries - 1) / queries }

// start packs the head's keys and values, and finds room for the rest.
func (f *backward) start(b, kh int) {
	at := 0
	room := func(n int) unsafe.Pointer { at++; return f.memory[at-1].at(n) }
	d, dv := f.Q.D, f.V.D
	f.b, f.kh, f.keys, f.blocks = b, kh, ref.Keys(&f.Attention, b), panels(f.Q.S)
	f.scratch = room(gemm.Scratch)
	f.kRows, f.vRows, f.ktRows = f.RowBytes(d), f.RowBytes(dv), f.RowBytes(f.keys)
	f.k, f.v, f.kt = room(f.BlockBytes(f.keys, d)), room(f.BlockBytes(f.keys, dv)), room(f.BlockBytes(d, f.keys))
	f.PackRows(f.k, f.scratch, gemm.HeadLines(f.K, b, kh, false), 0, f.keys, d)
	f.PackRows(f.v, f.scratch, gemm.HeadLines(f.V, b, kh, false), 0, f.keys, dv)
	f.PackRows(f.kt, f.scratch, gemm.HeadLines(f.K, b, kh, true), 0, d, f.keys)
	f.qPanel, f.doPanel, f.over = f.PanelBytes(d), f.PanelBytes(dv), f.PanelBytes(f.Q.S)
	f.q, f.do = room(f.blocks*f.qPanel), room(f.blocks*f.doPanel)
	f.qx, f.dox = room(panels(d)*f.over), room(panels(dv)*f.over)
	f.dq = room(f.blocks * panels(d) * tileBytes)
	const block = kernels.KeyBlock * queries * 4
	f.dk, f.dv = room(panels(d)*block), room(panels(dv)*block)
	if f.Q.H > f.K.H {
		f.dkSum, f.dvSum = room(panels(d)*f.keys*queries*4), room(panels(dv)*f.keys*queries*4)
	}
	rest := room(5*block + tileBytes + 128)
	f.tile, f.zeros = unsafe.Add(rest, 5*block), unsafe.Add(rest, 5*block+tileBytes)
	for i := range 32 { // changes no number, not even -0
		floats(f.zeros, 32)[i] = float32(math.Copysign(0, -1))
	}
	g := &f.g
	g.s, g.g, g.panel = rest, unsafe.Add(rest, block), unsafe.Add(rest, block)
	g.p, g.d, g.rowBytes = g.s, g.g, queries*4
	if f.math == kernels.MathBF16 {
		g.panel = unsafe.Add(rest, 2*block)
	}
	switch {
	case f.lined:
		g.p, g.d, g.rowBytes = unsafe.Add(rest, 2*block+block/2), unsafe.Add(rest, 3*block), queries*2
	case f.apart:
		g.panel, g.p, g.d = unsafe.Add(rest, 2*block), unsafe.Add(rest, 3*block), unsafe.Add(rest, 2*block)
		if f.math == kernels.MathBF16 {
			g.d = unsafe.Add(rest, 4*block)
		}
	}
	if n := f.blocks * queries; len(f.delta) < n {
		f.delta, f.shift = make([]float32, n), make([]float32, n)
	}
	if n := max(d, dv); len(f.x) < n {
		f.x, f.y = make([]float32, n), make([]float32, n)
	}
}

// tileBytes is the size of 32 x 32 fp32.
const tileBytes = queries * queries * 4

func (f *backward) run(b, kh int) {
	f.start(b, kh)
	group := f.Q.H / f.K.H
	for h := kh * group; h < (kh+1)*group; h++ {
		f.head(h)
		for k0 := 0; k0 < f.keys; k0 += kernels.KeyBlock {
			n := min(kernels.KeyBlock, f.keys-k0)
			f.block(h, k0, n)
			f.keep(h-kh*group, group, k0, n)
		}
		f.finishQueries(h)
	}
	clear(f.x)
	for j := f.keys; j < f.K.S; j++ {
		ref.Store(f.DK.Span, f.DK.At(b, j, kh), f.x[:f.K.D])
		ref.Store(f.DV.Span, f.DV.At(b, j, kh), f.x[:f.V.D])
	}
}

// head packs a query head, and computes its Delta.
func (f *backward) head(h int) {
	d, dv := f.Q.D, f.V.D
	q, do := gemm.HeadLines(f.Q, f.b, h, false), gemm.HeadLines(f.DO, f.b, h, false)
	for i := range f.blocks {
		n := min(queries, f.Q.S-i*queries)
		f.PackPanel(unsafe.Add(f.q, i*f.qPanel), f.scratch, q, i*queries, n, d)
		f.PackPanel(unsafe.Add(f.do, i*f.doPanel), f.scratch, do, i*queries, n, dv)
	}
	q, do = gemm.HeadLines(f.Q, f.b, h, true), gemm.HeadLines(f.DO, f.b, h, true)
	for i := range panels(d) {
		f.PackPanel(unsafe.Add(f.qx, i*f.over), f.scratch, q, i*queries, min(queries, d-i*queries), f.Q.S)
	}
	for i := range panels(dv) {
		f.PackPanel(unsafe.Add(f.dox, i*f.over), f.scratch, do, i*queries, min(queries, dv-i*queries), f.Q.S)
	}
	at := (f.b*f.Q.H + h) * f.Q.S
	f.dots(f, h)
	copy(f.Delta.F32()[at:at+f.Q.S], f.delta)
	for i := range f.blocks * queries {
		if i >= f.Q.S {
			f.delta[i], f.shift[i] = 0, minusInf
			continue
		}
		f.shift[i] = -f.LSE.F32()[at+i]
		if f.shift[i] > 0 && f.shift[i]*0.5 == f.shift[i] { // LSE = -Inf: p is 0
			f.shift[i] = minusInf
		}
	}
	clear(floats(f.dq, f.blocks*panels(d)*queries*queries))
}

// dotsGo is Delta of a head's queries.
func dotsGo(f *backward, h int) {
	x, y := f.x[:f.V.D], f.y[:f.V.D]
	for i := range f.Q.S {
		ref.Load(x, f.DO.Span, f.DO.At(f.b, i, h))
		ref.Load(y, f.O.Span, f.O.At(f.b, i, h))
		f.delta[i] = ref.Dot(x, y)
	}
}

// block walks over the queries with n keys from k0 on.
func (f *backward) block(h, k0, n int) {
	d, dv := f.Q.D, f.V.D
	g := &f.g
	g.keys, g.scale = n, f.Scale
	block := n * queries * 4
	step := f.PanelBytes(queries)
	if f.blocks == 0 {
		clear(floats(f.dk, panels(d)*block/4))
		clear(floats(f.dv, panels(dv)*block/4))
	}
	for i := range f.blocks {
		some := min(queries, f.Q.S-i*queries)
		f.job.Narrow, g.width = some <= queries/2 && !f.whole, queries*4
		if f.job.Narrow {
			g.width = rowBytes(some)
		}
		f.Run(&f.job, g.s, unsafe.Add(f.k, k0*f.kRows), unsafe.Add(f.q, i*f.qPanel), f.kRows, n, 0, d, false)
		f.Run(&f.job, g.g, unsafe.Add(f.v, k0*f.vRows), unsafe.Add(f.do, i*f.doPanel), f.vRows, n, 0, dv, false)
		g.c = ref.Mul(f.Scale, ref.Log2E)
		if shift(&f.Attention, g.s, f.b, h, i*queries, some, k0, n) {
			g.c = 1
		}
		copy(g.shift[:], f.shift[i*queries:])
		copy(g.delta[:], f.delta[i*queries:])
		f.hide(i*queries, some, k0)
		f.grade(g)
		f.Run(&f.job, unsafe.Add(f.dq, i*panels(d)*tileBytes), f.kt, g.panel, f.ktRows, d, k0, n, k0 > 0)
		for c := range panels(dv) {
			f.job.Narrow = dv-c*queries <= queries/2
			f.Run(&f.job, unsafe.Add(f.dv, c*block), g.p, unsafe.Add(f.dox, c*f.over+i*step), g.rowBytes, n, 0, some, i > 0)
		}
		for c := range panels(d) {
			f.job.Narrow = d-c*queries <= queries/2
			f.Run(&f.job, unsafe.Add(f.dk, c*block), g.d, unsafe.Add(f.qx, c*f.over+i*step), g.rowBytes, n, 0, some, i > 0)
		}
	}
}

// hide makes dS = 0 of the keys that queries from i0 on do not see, also where dO·V or Delta
// is not finite: P is 0 there, but 0·Inf would be NaN. Such a Delta is taken from dO·V here.
func (f *backward) hide(i0, n, k0 int) {
	g := &f.g
	if !f.Causal || ref.Seen(&f.Attention, f.b, i0) >= k0+g.keys {
		return
	}
	z := floats(g.g, g.keys*queries)
	for i := range n {
		if delta := g.delta[i]; delta-delta != 0 {
			for j := range g.keys {
				z[j*queries+i] = ref.Sub(z[j*queries+i], delta)
			}
			g.delta[i] = 0
		}
		hide(&f.Attention, z, f.b, i0, i, k0, g.keys, 0)
	}
}

// keep stores a block of dK and dV, after the heads before it where there are several.
func (f *backward) keep(head, group, k0, n int) {
	for _, x := range []struct {
		block, sum unsafe.Pointer
		to         kernels.Heads
	}{{f.dk, f.dkSum, f.DK}, {f.dv, f.dvSum, f.DV}} {
		out := gemm.HeadLines(x.to, f.b, f.kh, false)
		for c := range panels(x.to.D) {
			from := unsafe.Add(x.block, c*n*queries*4)
			f.padded(from, n*queries, f.Q.S)
			if group > 1 {
				sum := unsafe.Add(x.sum, (c*f.keys+k0)*queries*4)
				if head == 0 {
					copy(floats(sum, n*queries), floats(from, n*queries))
				} else {
					f.Add(sum, from, n)
				}
				from = sum
			}
			if head == group-1 {
				f.Store(out, k0, n, c*queries, min(queries, x.to.D-c*queries), from, f.zeros)
			}
		}
	}
}

func (f *backward) finishQueries(h int) {
	out := gemm.HeadLines(f.DQ, f.b, h, false)
	for i := range f.blocks {
		n := min(queries, f.Q.S-i*queries)
		for c := range panels(f.Q.D) {
			tile := unsafe.Add(f.dq, (i*panels(f.Q.D)+c)*tileBytes)
			f.padded(tile, tileBytes/4, f.keys)
			f.Turn(f.tile, tile)
			f.Store(out, i*queries, n, c*queries, min(queries, f.Q.D-c*queries), f.tile, f.zeros)
		}
	}
}

// grading is the pass between the products of the backward: P and dS of ref.AttentionBackward from scores and from
// dO·V, for 32 queries at once.
type grading struct {
	s, g         unsafe.Pointer // [keys][32] fp32: scores, and dO·V
	p, d         unsafe.Pointer // rows of P and dS as a product's A; s and g unless those are lined
	panel        unsafe.Pointer // dS as a panel
	rowBytes     int            // of p and d
	keys         int
	c, scale     float32
	shift, delta [queries]float32 // -LSE, or -Inf where no key is seen

	// Path NEON's alone.
	width int // bytes of a row of scores that are wanted: 64 or 128
	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was (package neon)
}

// run is the pass in plain Go, for rows that are fp32.
func (g *grading) run(m kernels.Math) {
	g.grade(m)
	if m == kernels.MathBF16 {
		panelGo(g.panel, floats(g.g, g.keys*queries))
	}
}

// grade leaves P and dS where scores and dO·V were.
func (g *grading) grade(m kernels.Math) {
	exp2, round := ref.Exp2, func(x float32) float32 { return x }
	if m == kernels.MathBF16 {
		exp2, round = ref.Exp2Short, ref.RoundBF16
	}
	s, d := floats(g.s, g.keys*queries), floats(g.g, g.keys*queries)
	for i, x := range s {
		q := i % queries
		p := exp2(ref.FMA(x, g.c, g.shift[q]))
		s[i] = round(p)
		d[i] = round(ref.Mul(ref.Mul(p, ref.Sub(d[i], g.delta[q])), g.scale))
	}
}
