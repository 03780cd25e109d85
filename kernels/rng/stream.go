package rng

import "math/bits"

// A Stream draws one after another, for choices that may need more than one word.
// It is also a source for math/rand/v2.
type Stream struct {
	key   Key
	next  uint64 // the next word
	block [4]uint32
}

// Draw starts a stream at the key's first word.
func (k Key) Draw() *Stream { return &Stream{key: k} }

// Uint32 is the next word.
func (s *Stream) Uint32() uint32 {
	if s.next%4 == 0 {
		s.block = s.key.block(s.next / 4)
	}
	w := s.block[s.next%4]
	s.next++
	return w
}

// Uint64 is made of the next two words, low first.
func (s *Stream) Uint64() uint64 {
	low := uint64(s.Uint32())
	return low | uint64(s.Uint32())<<32
}

// Float64 is a multiple of 2^-53 in [0, 1).
func (s *Stream) Float64() float64 { return float64(float64(s.Uint64()>>11) * 0x1p-53) }

// Intn is a whole number in [0, n), each with the same chance (Lemire, Fast
// random integer generation in an interval, 2019). It panics if n is not positive.
func (s *Stream) Intn(n int) int {
	if n <= 0 {
		panic("rng: Intn of a number that is not positive")
	}
	m := uint64(n)
	hi, lo := bits.Mul64(s.Uint64(), m)
	if lo < m {
		for uneven := -m % m; lo < uneven; {
			hi, lo = bits.Mul64(s.Uint64(), m)
		}
	}
	return int(hi)
}

// Shuffle puts n things into random order (Fisher and Yates).
func (s *Stream) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, s.Intn(i+1))
	}
}

// Perm is a random order of 0 to n-1.
func (s *Stream) Perm(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	s.Shuffle(n, func(i, j int) { p[i], p[j] = p[j], p[i] })
	return p
}
