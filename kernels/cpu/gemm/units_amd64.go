//go:build amd64 && !noasm

package gemm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// unitsOf lists the units of a path.
func unitsOf(path isa.Path) map[kernels.Math]unit {
	switch path {
	case isa.BF16, isa.AMX:
		return map[kernels.Math]unit{kernels.MathF32: f32Unit{}, kernels.MathBF16: bf16Unit{}}
	}
	return nil
}
