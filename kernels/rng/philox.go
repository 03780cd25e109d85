package rng

import "math/bits"

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011). A block cipher of
// ten rounds, reduced to the needs of randomness: 128 bits of counter and 64 bits of key give four words.
//
// The counter is (block low, block high, stream low, stream high), the order of
// cuRAND: curand_init(key, stream, i) yields the words of Key{key, stream} from i on.
//
// Invariant: the known answers of Random123; any part of a sequence equals that
// part of the whole.

const (
	philoxM0 = 0xD2511F53
	philoxM1 = 0xCD9E8D57
	philoxW0 = 0x9E3779B9 // the golden ratio
	philoxW1 = 0xBB67AE85 // the square root of 3, less 1
)

// philox is the block function: four words of counter, two of key. (Single words stay
// in registers; arrays cost twice the time.)
func philox(c0, c1, c2, c3, k0, k1 uint32) (_, _, _, _ uint32) {
	for range 10 {
		h0, l0 := bits.Mul32(philoxM0, c0)
		h1, l1 := bits.Mul32(philoxM1, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += philoxW0
		k1 += philoxW1
	}
	return c0, c1, c2, c3
}

// block is the key's b-th block: words 4b to 4b+3.
func (k Key) block(b uint64) (w [4]uint32) {
	w[0], w[1], w[2], w[3] = philox(uint32(b), uint32(b>>32), uint32(k.Stream), uint32(k.Stream>>32),
		uint32(k.Philox), uint32(k.Philox>>32))
	return w
}

// Word is the key's i-th word.
func (k Key) Word(i uint64) uint32 { return k.block(i / 4)[i%4] }

// Words fills dst with the words start, start+1, ...
func (k Key) Words(dst []uint32, start uint64) {
	eachBlock(k, len(dst), start, func(at, from, to int, w [4]uint32) {
		copy(dst[at:], w[from:to])
	})
}

// eachBlock calls f for every block that n words from start on touch: the
// block's words from..to are those that belong at dst[at:].
func eachBlock(k Key, n int, start uint64, f func(at, from, to int, w [4]uint32)) {
	for at := 0; at < n; {
		i := start + uint64(at)
		from := int(i % 4)
		to := min(4, from+n-at)
		f(at, from, to, k.block(i/4))
		at += to - from
	}
}

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
