package jpeg

// Card: the forward cosine transform of 8 x 8 numbers, 8 times too large, by Loeffler,
// Ligtenberg and Moschytz (1989) in 13-bit fixed point with two more bits between the passes:
// libjpeg's jfdctint.c ("islow"), whose roundings it repeats.

const (
	scaleBits = 13
	extraBits = 2
)

func transform(b *[64]int32) {
	for y := range 8 {
		pass(b[8*y:], 1, -extraBits, scaleBits-extraBits)
	}
	for x := range 8 {
		pass(b[x:], 8, extraBits, scaleBits+extraBits)
	}
}

// descaled is v / 2^n, half up; times 2^-n where n is negative.
func descaled(v int32, n int) int32 {
	if n < 0 {
		return v << -n
	}
	return (v + 1<<(n-1)) >> n
}

// pass transforms eight numbers that lie step apart. Sums of the first kind have no factor,
// the others have 2^13.
func pass(b []int32, step, sums, products int) {
	b = b[:7*step+1]
	b0, b1, b2, b3 := b[0], b[step], b[2*step], b[3*step]
	b4, b5, b6, b7 := b[4*step], b[5*step], b[6*step], b[7*step]
	s0, s1, s2, s3 := b0+b7, b1+b6, b2+b5, b3+b4
	s7, s6, s5, s4 := b0-b7, b1-b6, b2-b5, b3-b4

	e0, e3, e1, e2 := s0+s3, s0-s3, s1+s2, s1-s2
	b[0], b[4*step] = descaled(e0+e1, sums), descaled(e0-e1, sums)
	z := (e2 + e3) * 4433
	b[2*step], b[6*step] = descaled(z+e3*6270, products), descaled(z-e2*15137, products)

	z1, z2, z3, z4 := (s4+s7)*-7373, (s5+s6)*-20995, s4+s6, s5+s7
	z5 := (z3 + z4) * 9633
	z3, z4 = z3*-16069+z5, z4*-3196+z5
	b[7*step] = descaled(s4*2446+z1+z3, products)
	b[5*step] = descaled(s5*16819+z2+z4, products)
	b[3*step] = descaled(s6*25172+z2+z3, products)
	b[1*step] = descaled(s7*12299+z1+z4, products)
}
