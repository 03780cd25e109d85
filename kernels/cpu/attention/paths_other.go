//go:build (!amd64 && !arm64) || noasm

package attention

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

func pathOf(_ isa.Path, m kernels.Math, b gemm.Blocks) path { return goPath(m, b) }

func ropesOf(isa.Path) ropes { return ropes{} }
