//go:build (!amd64 && !arm64) || noasm

package noise

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

func groupBlocks(isa.Path) int { return 0 }

func fill(isa.Path, kind, unsafe.Pointer, *job) { panic("noise: a path without assembly") }
