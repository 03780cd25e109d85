//go:build amd64 && !noasm

package unpack

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// kernelOf is a path's kernel; nil where it has none.
func kernelOf(p isa.Path, bits int, to kernels.DType) func(*job) {
	switch {
	case p >= isa.AVX512:
		return pick(bits, to, [6]func(*job){fourF32AVX512, fourBF16AVX512, fourF16AVX512, eightF32AVX512, eightBF16AVX512, eightF16AVX512})
	case p == isa.AVX2:
		return pick(bits, to, [6]func(*job){fourF32AVX2, fourBF16AVX2, fourF16AVX2, eightF32AVX2, eightBF16AVX2, eightF16AVX2})
	}
	return nil
}

//go:noescape
func fourF32AVX2(a *job)

//go:noescape
func fourBF16AVX2(a *job)

//go:noescape
func fourF16AVX2(a *job)

//go:noescape
func eightF32AVX2(a *job)

//go:noescape
func eightBF16AVX2(a *job)

//go:noescape
func eightF16AVX2(a *job)

//go:noescape
func fourF32AVX512(a *job)

//go:noescape
func fourBF16AVX512(a *job)

//go:noescape
func fourF16AVX512(a *job)

//go:noescape
func eightF32AVX512(a *job)

//go:noescape
func eightBF16AVX512(a *job)

//go:noescape
func eightF16AVX512(a *job)
