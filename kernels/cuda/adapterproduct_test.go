//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
)

// TestAdapterProducts: products of adapters have the bits of every tile, with every epilogue, where they end inside
// blocks and slices, and read nothing beyond rows and columns.
func TestAdapterProducts(t *testing.T) {
	r := newRig(t)
	types := []kernels.DType{kernels.F32, kernels.BF16}
	i := 0
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		for _, s := range [][3]int{{37, 40, 296}, {70, 32, 1048}, {16, 12, 72}, {35, 328, 40}, {18, 72, 64}, {70, 136, 8}, {33, 64, 24}} {
			for _, with := range []string{"", "all", "residual"} {
				m, n, k := s[0], s[1], s[2]
				rows, cols := n, k
				if layout == kernels.NN {
					rows, cols = k, n
				}
				d, other := types[i%2], types[i/2%2]
				i++
				g := kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: r.mat(kernels.BF16, m, k, k+8, 8), B: r.mat(kernels.F32, rows, cols, cols+4, 4), Alpha: 0.75}
				residual, gate, bias := r.mat(other, m, n, n+8, 8), r.mat(d, 3, n, n+16, 0), r.mat(other, 1, n, n, 0)
				pre, start := r.zeros(other, m*n), r.mat(d, m, n, n, 0)
				r.sameReadings(fmt.Sprintf("%s %v %q", layout, s, with), false, 0, func() []byte {
					c := r.zeros(d, m*n)
					g.C = kernels.NewMat(c, m, n)
					r.Fill(pre, 0)
					switch with {
					case "all":
						r.Upload(c, r.bytes(start.Span))
						g.Bias, g.Pre, g.Act, g.Residual, g.Accumulate = bias.Span, kernels.NewMat(pre, m, n), kernels.GELUTanh, residual, d == kernels.F32
						g.Gate, g.GateRows = gate, 25
					case "residual":
						g.Residual = residual
					}
					r.Gemm(&g)
					return append(r.bytes(c), r.bytes(pre)...)
				})
			}
		}
	}
	for _, s := range [][3]int{{40, 72, 70}, {72, 16, 300}, {8, 136, 33}} {
		for _, segments := range [][]int{nil, {s[2] - 20, 0, 20}} {
			m, n, k := s[0], s[1], s[2]
			g := kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: r.mat(kernels.BF16, k, m, m+8, 8), B: r.mat(kernels.BF16, k, n, n+16, 0),
				Alpha: 0.75, Segments: segments, Accumulate: i%3 > 0}
			i++
			r.sameReadings(fmt.Sprintf("TN %v %v", s, segments), false, 0, func() []byte {
				c := r.zeros(kernels.F32, m*n)
				r.Fill(c, 3)
				g.C = kernels.NewMat(c, m, n)
				r.Gemm(&g)
				return r.bytes(c)
			})
		}
	}
	if n := r.AdapterProducts(); n != i {
		t.Errorf("%d products by the kernels of adapters, want %d", n, i)
	}
}
