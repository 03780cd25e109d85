//go:build arm64 && !noasm

package peak

import "github.com/darkroom-rl/darkroom/kernels/cpu/isa"

// The loops of peak_arm64.s. The comment there defines a round.

//go:noescape
func fmaNEON(x *float32, rounds int)

//go:noescape
func readNEON(x *uint64, lines int) uint64

// multiplyAdds is the loop of fp32 multiply-adds and its floating-point operations.
func multiplyAdds(p isa.Path, x []float32) (call func(), work float64) {
	if p != isa.NEON {
		return plainProbe(x)
	}
	const rounds = 4096
	return func() { fmaNEON(&x[0], rounds) }, rounds * 24 * 4 * 2
}

// products are multiply-adds: the path has no unit for bf16 whose bits are ref's.
func products(p isa.Path, x []float32) (call func(), work float64) { return multiplyAdds(p, x) }

// read reads x, a multiple of eight 64-byte lines.
func read(p isa.Path, x []uint64) uint64 {
	if p != isa.NEON {
		return readPlain(x)
	}
	return readNEON(&x[0], len(x)/8)
}
