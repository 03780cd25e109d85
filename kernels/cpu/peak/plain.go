package peak

// The loops in plain Go: what the plain path can reach.

const plainRounds = 4096

// multiplyAddsPlain is eight chains of c·a + b, which the compiler can neither
// shorten nor drop, since their sum is returned.
func multiplyAddsPlain(a, b float32) float32 {
	var c0, c1, c2, c3 float32
	c4, c5, c6, c7 := a, a, b, b
	for range plainRounds {
		c0 = float32(c0*a) + b
		c1 = float32(c1*b) + a
		c2 = float32(c2*a) + a
		c3 = float32(c3*b) + b
		c4 = float32(c4*a) + b
		c5 = float32(c5*b) + a
		c6 = float32(c6*a) + a
		c7 = float32(c7*b) + b
	}
	return c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7
}

func plainProbe(x []float32) (call func(), work float64) {
	return func() { x[2] = multiplyAddsPlain(x[0], x[1]) }, 8 * 2 * plainRounds
}

func readPlain(x []uint64) uint64 {
	var s0, s1, s2, s3 uint64
	for ; len(x) >= 4; x = x[4:] {
		s0 ^= x[0]
		s1 ^= x[1]
		s2 ^= x[2]
		s3 ^= x[3]
	}
	return s0 ^ s1 ^ s2 ^ s3
}
