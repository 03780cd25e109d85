package cpu

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// PackConv puts a frozen weight [Out, KH, KW, In] into the layout of the path's
// convolutions.
func (b *Backend) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: s.Out, K: s.KH * s.KW * s.In, Conv: s}
	p.Buf = b.Alloc(b.gemm.ConvBytes(s, m))
	b.gemm.PackConv(p, w, b.pool.run)
	return p
}

// Conv computes a convolution.
func (b *Backend) Conv(a *kernels.Conv) { b.gemm.Conv(a, b.pool.run) }

// ConvBackward computes DX and adds to DWeight and DBias, where they are asked for.
func (b *Backend) ConvBackward(a *kernels.ConvBackward) {
	b.gemm.ConvBackward(a, b.pool.run)
	if a.DBias.Empty() || a.N == 0 {
		return
	}
	oh, ow := a.Shape.OutSize(a.H, a.W)
	samples := make([]int, a.N)
	for i := range samples {
		samples[i] = oh * ow
	}
	b.SumRows(&kernels.SumRows{X: kernels.NewMat(a.DY, a.N*oh*ow, a.Shape.Out), Segments: samples, Out: a.DBias, Accumulate: true})
}

// Upsample repeats pixels.
func (b *Backend) Upsample(a *kernels.Upsample) {
	b.byRows(a.N*a.H*a.Factor, a.W*a.Factor*a.C, func(lo, hi int) { ref.Upsample(a, lo, hi) })
}

// UpsampleBackward adds up the copies of every pixel.
func (b *Backend) UpsampleBackward(a *kernels.UpsampleBackward) {
	b.byRows(a.N*a.H, a.W*a.C*a.Factor*a.Factor, func(lo, hi int) { ref.UpsampleBackward(a, lo, hi) })
}
