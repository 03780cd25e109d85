package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A product with a pair is two products, as in package ref. A task computes a block of both, one after the other, so
// that the pair's sums never leave the cache. Rows are independent: blocks change no bit.

// lowOf parts a product: the first without its pair, and the pair's.
func lowOf(e *Engine, u unit, g *kernels.Gemm) (*kernels.Gemm, *product) {
	var whole, low *kernels.Gemm
	if g.Layout == kernels.NN {
		whole, low = g.Apart(kernels.Mat{})
	} else {
		low, whole = g.Apart(kernels.Mat{}) // its sums are added in scratch
	}
	p := newProduct(e, u, low, g.C.Rows, g.C.Cols, low.A.Cols)
	p.parts = parts{a: partLowA, c: partLowC, bias: partLowBias}
	p.depth, p.rowBytes = p.kp, u.rowBytes(p.kp) // a task packs all of the pair's k at once
	p.readInPlace()
	return whole, p
}

// lowBytes is the size of a row of the pair's packed A, 0 for a product without one.
func (p *product) lowBytes() int {
	if p.low == nil {
		return 0
	}
	return p.low.packedBytes()
}

// packLow packs all panels of the pair's B, of which low is the product. The returned function frees their memory.
func (p *product) packLow(par Parallel) (done func()) {
	if p.shared != nil {
		return func() {}
	}
	s := p.e.stages.take(panels(p.n)*p.size, tmpBytes)
	p.shared, p.to = s.get(0), panels(p.n)
	if each := max(1, 1<<18/p.size); each < p.to {
		p.packShared(0, each, par)
	} else {
		for j := range p.to {
			p.packPanel(p.panel(j), s.get(1), j)
		}
	}
	return func() { p.e.stages.put(s) }
}

// sums is a block of an NT product's pair, with its own epilogue, in scratch.
func (p *product) sums(s *arena, m0, rows, j int) unsafe.Pointer {
	c := s.get(p.parts.c)
	p.block(s, p.panel(j), nil, m0, rows, j, p.all(), false, false)
	if p.later || p.alpha != 1 {
		p.finishTo(target{p: c, stride: panel * 4}, s, nil, p.bias(s, j), m0, rows, j)
	}
	return c
}

// apart computes a product with a pair by the loops of ref, which need memory for the pair's sums.
func (e *Engine) apart(a *kernels.Gemm, m, n int, par Parallel) {
	var sums kernels.Mat
	if size := e.PairScratch(a); size > 0 {
		s := e.stages.take(size)
		defer e.stages.put(s)
		sums = kernels.NewMat(s.span(0, m*n, kernels.F32), m, n)
	}
	first, second := a.Apart(sums)
	e.Gemm(first, par)
	e.Gemm(second, par)
}

// PairScratch is the memory of a pair's sums.
func (e *Engine) PairScratch(a *kernels.Gemm) int {
	if _, ok := e.units[a.Math]; ok || a.Layout == kernels.NN {
		return 0
	}
	return 4 * a.C.Rows * a.C.Cols
}
