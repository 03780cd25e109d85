//go:build (!amd64 && !arm64) || noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// unitsOf is empty: products run by the loops of ref.
func unitsOf(isa.Path) map[kernels.Math]unit { return nil }

func lentBy(_ isa.Path, _ kernels.Math, u unit) unit { return u }

func turnOf(isa.Path) func(dst, src unsafe.Pointer) { return turnGo }
