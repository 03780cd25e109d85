//go:build arm64 && !noasm

package unpack

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// kernelOf is a path's kernel; nil where it has none.
func kernelOf(p isa.Path, bits int, to kernels.DType) func(*job) {
	if p != isa.NEON {
		return nil
	}
	return pick(bits, to, [6]func(*job){fourF32NEON, fourBF16NEON, fourF16NEON, eightF32NEON, eightBF16NEON, eightF16NEON})
}

//go:noescape
func fourF32NEON(a *job)

//go:noescape
func fourBF16NEON(a *job)

//go:noescape
func fourF16NEON(a *job)

//go:noescape
func eightF32NEON(a *job)

//go:noescape
func eightBF16NEON(a *job)

//go:noescape
func eightF16NEON(a *job)
