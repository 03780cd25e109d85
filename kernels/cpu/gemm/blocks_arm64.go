//go:build arm64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

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
