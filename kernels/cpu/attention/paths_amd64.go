//go:build amd64 && !noasm

package attention

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

//go:generate go run ./gen

// pathOf chooses the passes of a path. Path AVX2 has those in plain Go.
func pathOf(at isa.Path, m kernels.Math, b gemm.Blocks) path {
	p := goPath(m, b)
	if at < isa.AVX512 {
		return p
	}
	p.rescale = rescale
	switch {
	case m == kernels.MathF32:
		p.weigh = weighF32
	case at < isa.BF16:
		p.weigh = weighWide
	default:
		p.weigh = weighBF16
	}
	return p
}

//go:noescape
func rescale(w *weighing, rows int)

//go:noescape
func weighF32(w *weighing)

//go:noescape
func weighBF16(w *weighing)

//go:noescape
func weighWide(w *weighing)
