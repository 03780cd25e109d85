package rng

// Uniform fills dst with multiples of 2^-24 in [0, 1): element i is made of word i.
func (k Key) Uniform(dst []float32, start uint64) {
	eachBlock(k, len(dst), start, func(at, from, to int, w [4]uint32) {
		for j, x := range w[from:to] {
			dst[at+j] = float32(x>>8) * 0x1p-24
		}
	})
}

// UniformOpen fills dst with odd multiples of 2^-24 in (0, 1), for those who
// take a logarithm: element i is made of word i. (With one bit more, the largest
// would round to 1.)
func (k Key) UniformOpen(dst []float32, start uint64) {
	eachBlock(k, len(dst), start, func(at, from, to int, w [4]uint32) {
		for j, x := range w[from:to] {
			dst[at+j] = (float32(x>>9) + 0.5) * 0x1p-23
		}
	})
}
