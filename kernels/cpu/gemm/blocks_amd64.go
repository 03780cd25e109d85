//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

func turnOf(path isa.Path) func(dst, src unsafe.Pointer) {
	if path < isa.AVX512 {
		return turnGo
	}
	return func(dst, src unsafe.Pointer) {
		// Tiles of 16 x 16: those below each other come to lie beside each other.
		for h := range 2 {
			transpose16(unsafe.Add(dst, h*64), unsafe.Add(src, h*16*128), 128, 128, 16*128, 64, 2)
		}
	}
}
