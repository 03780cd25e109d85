//go:build arm64 && !noasm

package rows

import "github.com/darkroom-rl/darkroom/kernels/cpu/isa"

// setOf is the set of a path; nil where it has none.
func setOf(p isa.Path) *set {
	if p == isa.NEON {
		return setNEON()
	}
	return nil
}
