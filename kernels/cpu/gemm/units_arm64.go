//go:build arm64 && !noasm

package gemm

import (
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
