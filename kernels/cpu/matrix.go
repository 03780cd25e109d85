package cpu

import "github.com/darkroom-rl/darkroom/kernels"

// Pack puts a frozen weight into the layout of the path's products.
func (b *Backend) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: w.Rows, K: w.Cols}
	p.Buf = b.Alloc(b.gemm.PackedBytes(p.N, p.K, m))
	b.gemm.Pack(p, w, b.pool.run)
	return p
}

// Gemm computes a product.
func (b *Backend) Gemm(a *kernels.Gemm) { b.gemm.Gemm(a, b.pool.run) }
