package jpeg

import mathbits "math/bits"

// codes are a Huffman table ready for use: the bits of each symbol and how many they are.
type codes [256]struct {
	bits uint32
	n    uint8
}

// codesOf numbers the symbols of a table: codes of one length count up, and a longer one
// goes on from twice the next.
func codesOf(table string) (c codes) {
	next, at := uint32(0), 16
	for n := range 16 {
		for range table[n] {
			c[table[at]].bits, c[table[at]].n = next, uint8(n+1)
			next++
			at++
		}
		next *= 2
	}
	return c
}

// bits collects codes into bytes. After a byte of ones comes a zero byte.
type bits struct {
	out  []byte
	held uint32 // the lowest n bits are still to be written
	n    uint8
}

func (b *bits) put(v uint32, n uint8) {
	b.held, b.n = b.held<<n|v, b.n+n
	for b.n >= 8 {
		b.n -= 8
		full := byte(b.held >> b.n)
		b.out = append(b.out, full)
		if full == 0xff {
			b.out = append(b.out, 0)
		}
	}
	b.held &= 1<<b.n - 1
}

// flush fills the last byte with ones.
func (b *bits) flush() {
	if b.n > 0 {
		b.put(1<<(8-b.n)-1, 8-b.n)
	}
}

func (b *bits) code(symbol uint8, c *codes) { b.put(c[symbol].bits, c[symbol].n) }

// number writes a number after a run of zeros: a code for the run and its length in bits,
// then its bits, those of a negative one less 1.
func (b *bits) number(zeros int, v int32, c *codes) {
	size, low := v, v
	if v < 0 {
		size, low = -v, v-1
	}
	n := uint8(mathbits.Len32(uint32(size)))
	b.code(uint8(zeros<<4)|n, c)
	if n > 0 {
		b.put(uint32(low)&(1<<n-1), n)
	}
}
