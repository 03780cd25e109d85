package attention

import (
	"math"
	"sync"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// queries is the number of queries of a block.
const queries = gemm.Panel

// Engine computes attention. Its calls may overlap.
type Engine struct {
	threads   int
	rope      ropes
	paths     map[kernels.Math]path // empty: the loops of ref
	arenas    sync.Pool             // *forward
	gradients sync.Pool             // *backward
}

// path is one arithmetic on one path.
type path struct {
	gemm.Blocks
	grade func(*grading)
	dots  func(f *backward, h int)
	lined bool // rows of a packed A are bf16, paired, and not fp32
	apart bool // passes write to memory of their own: panels and rows of A are fp32
	whole bool // rows of P and dS are read over all queries of a block
	math  kernels.Math
	end   func(w *weighing, rows int)
	weigh func(*weighing)
}

// New makes an engine that uses the block kernels of products, on a path for each arithmetic; rope is that of Rope.
func New(paths [2]isa.Path, rope isa.Path, threads int) *Engine {
	e := &Engine{threads: threads, paths: map[kernels.Math]path{}, rope: ropesOf(rope)}
	for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		if b, ok := gemm.BlocksOf(paths[m], m); ok {
			e.paths[m] = pathOf(paths[m], m, b)
		}
	}
	return e
}

// goPath has the passes between products in plain Go.
func goPath(m kernels.Math, b gemm.Blocks) path {
	return path{Blocks: b, math: m, weigh: func(w *weighing) { w.run(m) }, grade: func(g *grading) { g.run(m) }, dots: dotsGo, end: (*weighing).end}
}

// Attention computes the forward.
func (e *Engine) Attention(a *kernels.Attention, par gemm.Parallel) {
	p, ok := e.paths[a.Math]
	if !ok || !plain(a) {
		n := a.Q.B * a.Q.H * a.Q.S
		tasks := min(n, 4*e.threads)
		par(tasks, func(i int) { ref.Attention(a, i*n/tasks, (i+1)*n/tasks) })
		return
	}
	ref.Attention(a, 0, 0) // the check of shapes
	a = folded(a)
	blocks := (a.Q.S + queries - 1) / queries * (a.Q.H / max(a.K.H, 1))
	heads := a.K.B * a.K.H
	if blocks == 0 || heads == 0 {
		return
	}
	parts := min(blocks, max(1, (4*e.threads+heads-1)/heads))
	if e.threads == 1 {
		parts = 1
	}
	par(heads*parts, func(i int) {
		unit, part := i/parts, i%parts
		f := e.forward(a, p, unit/a.K.H, unit%a.K.H)
		for j := part * blocks / parts; j < (part+1)*blocks/parts; j++ {
			f.block(j)
		}
		f.Attention = nil // its memory is the caller's
		e.arenas.Put(f)
	})
}

// folded is the same work where each sample has one query, as in decoding: the heads that read
// one head of keys become its queries, which share a block. A query's bits do not depend on
// the others of its block, and the logarithms of sums lie where they did.
func folded(a *kernels.Attention) *kernels.Attention {
	group := a.Q.H / max(a.K.H, 1)
	if a.Q.S != 1 || group < 2 || !a.Bias.Empty() {
		return a
	}
	b := *a
	b.Causal = false // one query sees all keys
	for _, h := range []*kernels.Heads{&b.Q, &b.O} {
		h.S, h.H, h.SS, h.SH = group, a.K.H, h.SH, group*h.SH
	}
	return &b
}

// plain says whether heads have elements, and a scaled -Inf stays -Inf.
func plain(a *kernels.Attention) bool {
	return a.Scale > 1e-30 && a.Scale < 1e30 && a.Q.D > 0 && a.V.D > 0
}

// part is a piece of memory that is used again.
type part []byte

// at gives the piece at least n bytes, aligned to a cache line.
func (p *part) at(n int) unsafe.Pointer {
	if len(*p) < n+64 {
		*p = make([]byte, n+n/4+64)
	}
	b := unsafe.Pointer(unsafe.SliceData(*p))
	return unsafe.Add(b, -uintptr(b)&63)
}

// padded makes +0 of -0 in n sums over k, as the zeros do with which ref's backward fills k up to a
// whole 32; in bf16 the block kernels fill it up themselves.
func (p path) padded(sums unsafe.Pointer, n, k int) {
	if p.math != kernels.MathF32 || k%32 == 0 {
		return
	}
	x := floats(sums, n)
	for i, v := range x {
		if v == 0 {
			x[i] = 0
		}
	}
}

func floats(p unsafe.Pointer, n int) []float32 { return unsafe.Slice((*float32)(p), n) }

var minusInf = float32(math.Inf(-1))

func roundUp(n, to int) int { return (n + to - 1) / to * to }
