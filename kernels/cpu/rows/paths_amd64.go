//go:build amd64 && !noasm

package rows

import "github.com/darkroom-rl/darkroom/kernels/cpu/isa"

// setOf is the set of a path; nil where it has none.
func setOf(p isa.Path) *set {
	switch {
	case p >= isa.BF16:
		return setBF16()
	case p == isa.AVX512:
		return setAVX512()
	case p == isa.AVX2:
		return setAVX2()
	}
	return nil
}
