//go:build arm64 && !noasm

package noise

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// FPCR is left as Go sets it: no value comes near the denormals, and rounding is to
// nearest even already.

//go:noescape
func wordsNEON(dst unsafe.Pointer, j *job)

//go:noescape
func normalsNEON(dst unsafe.Pointer, j *job)

// groupBlocks is the number of blocks that a path draws together; 0: it has no assembly.
func groupBlocks(p isa.Path) int {
	if p == isa.NEON {
		return 4
	}
	return 0
}

// fill runs the loop of a path that has one.
func fill(_ isa.Path, what kind, dst unsafe.Pointer, j *job) {
	if what == words {
		wordsNEON(dst, j)
		return
	}
	normalsNEON(dst, j)
}
