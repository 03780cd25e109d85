//go:build arm64 && !noasm

package flow

import (
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

//go:generate go run ./gen

// fastest is the kernels of the chosen path.
var fastest = sync.OnceValue(func() *kernels {
	if p, err := isa.Choose(); err != nil || p != isa.NEON {
		return &plain
	}
	return &neon
})

var neon = kernels{
	symmetric: func(dst []float32, rows [][]float32, weights []float32) {
		symmetricNEON(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	expand: func(dst *[3][]float32, rows [][]float32, weights []float32) {
		expandNEON(&dst[0], &rows[0], &weights[0], len(weights)/3-1, len(dst[0]))
	},
	window: func(dst []float64, rows [][]float32, weights []float64) {
		windowNEON(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	across: func(dst []float64, rows [][]float64, weights []float64) {
		acrossNEON(&dst[0], &rows[0], &weights[0], len(weights)-1, len(dst))
	},
	equations: equationsNEON,
	solve: func(x, y []float32, g *[5][]float64) {
		solveNEON(&x[0], &y[0], &g[0], len(x))
	},
	patch: func(sum *[4]float32, a, b []uint8, gx, gy []int16, strideA, strideB int, w *[4]float32) {
		last := 7*strideA + 7
		_, _, _, _ = a[last], gx[last], gy[last], b[8*strideB+8]
		patchNEON(&sum[0], &a[0], &b[0], &gx[0], &gy[0], strideA, strideB, &w[0])
	},
	data:       dataNEON,
	weights:    func(w *weights) { weightsNEON(w); clear(w.clear) },
	smoothness: smoothNEON,
	sweep:      sweepNEON,
}

//go:noescape
func symmetricNEON(dst *float32, rows *[]float32, weights *float32, radius, n int)

//go:noescape
func expandNEON(dst *[]float32, rows *[]float32, weights *float32, radius, n int)

//go:noescape
func windowNEON(dst *float64, rows *[]float32, weights *float64, radius, n int)

//go:noescape
func acrossNEON(dst *float64, rows *[]float64, weights *float64, radius, n int)

//go:noescape
func equationsNEON(e *equations)

//go:noescape
func solveNEON(x, y *float32, sums *[]float64, n int)

//go:noescape
func patchNEON(sum *float32, a, b *uint8, gx, gy *int16, strideA, strideB int, w *float32)

//go:noescape
func dataNEON(a *data)

//go:noescape
func weightsNEON(a *weights)

//go:noescape
func smoothNEON(a *smooth)

//go:noescape
func sweepNEON(a *sweep)
