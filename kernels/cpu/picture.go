package cpu

import "github.com/darkroom-rl/darkroom/kernels"

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
