//go:build amd64 && !noasm

package peak

import "github.com/darkroom-rl/darkroom/kernels/cpu/isa"

// The loops of peak_amd64.s. The comment there defines a round.

//go:noescape
func fmaAVX2(x *float32, rounds int)

//go:noescape
func fmaAVX512(x *float32, rounds int)

//go:noescape
func dotBF16(x *float32, rounds int)

//go:noescape
func tilesAMX(x *float32, config *tileConfig, rounds int)

//go:noescape
func readAVX2(x *uint64, lines int) uint64

//go:noescape
func readAVX512(x *uint64, lines int) uint64

// tileConfig is the operand of LDTILECFG.
type tileConfig struct {
	palette     uint8
	_           [15]uint8
	columnBytes [16]uint16
	rows        [16]uint8
}

// multiplyAdds is the loop of fp32 multiply-adds and its floating-point operations.
func multiplyAdds(p isa.Path, x []float32) (call func(), work float64) {
	const rounds = 4096
	switch {
	case p >= isa.AVX512:
		return func() { fmaAVX512(&x[0], rounds) }, rounds * 24 * 16 * 2
	case p == isa.AVX2:
		return func() { fmaAVX2(&x[0], 2*rounds) }, 2 * rounds * 12 * 8 * 2
	}
	return plainProbe(x)
}

// products is the loop of bf16 products, where there is a unit for them.
func products(p isa.Path, x []float32) (call func(), work float64) {
	switch {
	case p == isa.AMX:
		const rounds = 1024
		config := &tileConfig{palette: 1}
		for t := range 8 {
			config.columnBytes[t], config.rows[t] = 64, 16
		}
		return func() { tilesAMX(&x[0], config, rounds) }, rounds * 4 * 16 * 16 * 32 * 2
	case p == isa.BF16:
		const rounds = 8192
		return func() { dotBF16(&x[0], rounds) }, rounds * 12 * 32 * 2
	}
	return multiplyAdds(p, x)
}

// read reads x, a multiple of eight 64-byte lines.
func read(p isa.Path, x []uint64) uint64 {
	switch {
	case p >= isa.AVX512:
		return readAVX512(&x[0], len(x)/8)
	case p == isa.AVX2:
		return readAVX2(&x[0], len(x)/8)
	}
	return readPlain(x)
}
