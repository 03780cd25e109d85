//go:build arm64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// unitsOf lists the units of a path.
func unitsOf(path isa.Path) map[kernels.Math]unit {
	if path != isa.NEON {
		return nil
	}
	return map[kernels.Math]unit{kernels.MathF32: newNEON(), kernels.MathBF16: newNEONBF16()}
}

// lentBy is the unit of Blocks: attention writes its weights into panels of fp32, which need
// no widening.
func lentBy(path isa.Path, m kernels.Math, u unit) unit {
	if path == isa.NEON && m == kernels.MathBF16 {
		return newNEONWide()
	}
	return u
}

func turnOf(path isa.Path) func(dst, src unsafe.Pointer) {
	if path != isa.NEON {
		return turnGo
	}
	return func(dst, src unsafe.Pointer) {
		for r := 0; r < panel; r += 4 {
			turnNEON(unsafe.Add(dst, r*128), unsafe.Add(src, r*4), 128, 128, 16, 4*128, panel/4)
		}
	}
}
