package cuda

import (
	"errors"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
)

// Products of bf16 by cuBLASLt: the library forms sums in fp32 in scratch, and our own kernel does the
// rest of Gemm's formula, because the library's GELU is the tanh form alone and rounds elsewhere.
// Products whose reduction goes over rows (weight gradients) stay with our kernel: their K is the
// batch, and samples are added in order. So do convolutions, which are products of patches.

// shapeOf is the shape of a product that the library may compute.
func (b *Backend) shapeOf(a *kernels.Gemm, p *productArgs) (s blas.Shape, ok bool) {
	if b.products == nil || a.Math != kernels.MathBF16 || a.Layout == kernels.TN || min(p.n, p.k) < b.products.least {
		return s, false
	}
	s = blas.Shape{N: p.n, K: (p.k + 7) / 8 * 8}
	s.Turned = a.Layout == kernels.NN && a.W != nil && a.W.Math == kernels.MathBF16 && p.n%8 == 0 && p.k%8 == 0
	return s, p.m > 0
}

// libraryProduct computes a product with the algorithm of its shape, and reports whether there is one.
func (b *Backend) libraryProduct(a *kernels.Gemm, p *productArgs) bool {
	const op = "Gemm"
	s, ok := b.shapeOf(a, p)
	if !ok {
		return false
	}
	c := b.choose(op, s)
	if c.algorithm == nil {
		return false
	}
	wide := padded(p.k)
	weight := p.b
	if !s.Turned && !weight.asRows(p) {
		defer b.giveBack(b.gatherRows(op, p, p.b, &weight, 0, p.n))
	}
	left := p.a.asRows(p)
	ld := blas.SumsWide(p.n)
	most := max(wholeTile, b.reading.most/2/(4*ld)/wholeTile*wholeTile)
	if !left {
		most = min(most, max(wholeTile, b.reading.most/2/(2*wide)/wholeTile*wholeTile))
	}
	for row := int64(0); row < p.m; row += most {
		part, m := p.a, min(most, p.m-row)
		var copied []uintptr
		if left {
			part.p += uintptr(2 * row * part.stride)
		} else {
			copied = b.gatherRows(op, p, p.a, &part, row, m)
		}
		sums := b.scratch(op, int(4*m*ld))
		if err := b.multiply(op, c, c.algorithm, weight, part, m, sums[0]); err != nil {
			b.must(op, func() error { return err })
		}
		b.products.calls++
		rest := *p
		rest.a, rest.m, rest.row0 = operand{p: sums[0], stride: ld, kind: int32(kernels.F32), form: operandRows}, m, row
		rest.paired = flag(rest.together(2))
		b.elements(op, "finish_product", int(m)*ceil(int(p.n), 4), &rest)
		b.giveBack(append(copied, sums...))
	}
	return true
}

// wholeTile is what rows are taken in multiples of, where they are gathered.
const wholeTile = 128

// asRows reports whether the library can read an operand as it lies.
func (o operand) asRows(p *productArgs) bool {
	return o.form == operandRows && o.kind == int32(kernels.BF16) && p.runs == 1 && p.k%8 == 0 && o.stride%8 == 0 && o.p%16 == 0
}

// multiply queues sums[m,N] = rows[m,K]·Wᵀ by an algorithm. The error is the library's refusal; what
// the device says panics.
func (b *Backend) multiply(op string, c *choice, a *blas.Algorithm, weight, rows operand, m int64, sums uintptr) (refused error) {
	p := b.products
	b.must(op, func() error {
		err := p.Fit(&c.at, weight.stride, rows.stride, m)
		if err == nil {
			b.d.Traffic.Launches++
			err = b.timed("cuBLASLt", func() error {
				return p.Multiply(c.Shape, &c.at, a, weight.p, rows.p, sums, p.workspace, workspaceBytes, b.stream)
			})
		}
		if e := new(blas.Error); errors.As(err, &e) {
			refused = e
			return nil
		}
		if err == nil && b.waitEach {
			return b.d.Wait(b.stream)
		}
		return err
	})
	return refused
}
