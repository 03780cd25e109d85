//go:build amd64 && !noasm

package flow

import (
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

//go:generate go run ./gen

// fastest is the kernels of the chosen path.
var fastest = sync.OnceValue(func() *kernels {
	if p, err := isa.Choose(); err != nil || p < isa.AVX2 {
		return &plain
	}
	return &avx2
})

var avx2 = kernels{
	symmetric: func(dst []float32, rows [][]float32, weights []float32) {
		symmetricAVX2(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	expand: func(dst *[3][]float32, rows [][]float32, weights []float32) {
		expandAVX2(&dst[0], &rows[0], &weights[0], len(weights)/3-1, len(dst[0]))
	},
	window: func(dst []float64, rows [][]float32, weights []float64) {
		windowAVX2(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	across: func(dst []float64, rows [][]float64, weights []float64) {
		acrossAVX2(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	equations: equationsAVX2,
	solve: func(x, y []float32, g *[5][]float64) {
		solveAVX2(&x[0], &y[0], &g[0], len(x))
	},
	patch: func(sum *[4]float32, a, b []uint8, gx, gy []int16, strideA, strideB int, w *[4]float32) {
		last := 7*strideA + 7
		_, _, _, _ = a[last], gx[last], gy[last], b[8*strideB+8]
		patchAVX2(&sum[0], &a[0], &b[0], &gx[0], &gy[0], strideA, strideB, &w[0])
	},
	data:       dataAVX2,
	weights:    func(w *weights) { weightsAVX2(w); clear(w.clear) },
	smoothness: smoothAVX2,
	sweep:      sweepAVX2,
}

//go:noescape
func symmetricAVX2(dst *float32, rows *[]float32, weights *float32, radius, n int)

//go:noescape
func expandAVX2(dst *[]float32, rows *[]float32, weights *float32, radius, n int)

//go:noescape
func windowAVX2(dst *float64, rows *[]float32, weights *float64, radius, n int)

//go:noescape
func acrossAVX2(dst *float64, rows *[]float64, weights *float64, radius, n int)

//go:noescape
func equationsAVX2(e *equations)

//go:noescape
func solveAVX2(x, y *float32, sums *[]float64, n int)

//go:noescape
func patchAVX2(sum *float32, a, b *uint8, gx, gy *int16, strideA, strideB int, w *float32)

//go:noescape
func dataAVX2(a *data)

//go:noescape
func weightsAVX2(a *weights)

//go:noescape
func smoothAVX2(a *smooth)

//go:noescape
func sweepAVX2(a *sweep)
