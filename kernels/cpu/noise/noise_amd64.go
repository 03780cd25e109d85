//go:build amd64 && !noasm

package noise

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// MXCSR is left as Go sets it: no value comes near the denormals, and rounding
// is to nearest even already.

//go:noescape
func wordsAVX2(dst unsafe.Pointer, j *job)

//go:noescape
func normalsAVX2(dst unsafe.Pointer, j *job)

//go:noescape
func wordsAVX512(dst unsafe.Pointer, j *job)

//go:noescape
func normalsAVX512(dst unsafe.Pointer, j *job)

// groupBlocks is the number of blocks that a path draws together; 0: it has no assembly.
func groupBlocks(p isa.Path) int {
	switch {
	case p >= isa.AVX512:
		return 16
	case p == isa.AVX2:
		return 8
	}
	return 0
}

// fill runs the loop of a path that has one.
func fill(p isa.Path, what kind, dst unsafe.Pointer, j *job) {
	switch wide := p >= isa.AVX512; {
	case wide && what == words:
		wordsAVX512(dst, j)
	case wide:
		normalsAVX512(dst, j)
	case what == words:
		wordsAVX2(dst, j)
	default:
		normalsAVX2(dst, j)
	}
}
