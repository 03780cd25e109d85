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
	for i := range 32 { // what changes no number, not even -0
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

// hide sets what query i0+i has of the keys that it does not see to x.
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
