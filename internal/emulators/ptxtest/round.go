package ptxtest

import "math"

// Roundings of 9.7.3: to nearest even, with .ftz denormals becoming the zero of their sign before and after. NaN has
// one pattern of bits.

const noNumber32 = 0x7fffffff

// flushed is a number of fp32 that .ftz reads.
func flushed(u uint32) float32 {
	if u&0x7f800000 == 0 {
		u &= 0x80000000
	}
	return math.Float32frombits(u)
}

// result returns the bits that .ftz writes.
func result(x float32) uint32 {
	u := math.Float32bits(x)
	switch {
	case x != x:
		return noNumber32
	case u&0x7f800000 == 0:
		return u & 0x80000000
	}
	return u
}

// fma32 is a*b+c, rounded once. The product of two numbers of 24 bits is exact in float64; its sum with c is rounded to
// odd there, so that the rounding to fp32 is that of the exact sum.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := float64(p + z)
	// Rounding twice is rounding once where the first result is 0, and where it is in the range of fp32's normal numbers
	// and not halfway between two of them.
	if u := math.Float64bits(s); s == 0 || u&(1<<29-1) != 1<<28 && u>>52&0x7ff-898 < 1150-898 {
		return float32(s)
	}
	return fmaOdd(s, p, z)
}

// fmaOdd rounds p + z, of which s is the nearest in float64.
func fmaOdd(s, p, z float64) float32 {
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	back := float64(s - p)
	left := float64(float64(p-float64(s-back)) + float64(z-back)) // the exact rest of the sum beyond s
	if u := math.Float64bits(s); left != 0 && u&1 == 0 {
		if (left > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}

// bf16 is x rounded to nearest even, as cvt.rn.bf16 does. Denormals are kept.
func bf16(u uint32) uint32 {
	if u&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return (u + 0x7fff + u>>16&1) >> 16
}

// widened is a number of bf16 in fp32.
func widened(h uint32) float32 { return math.Float32frombits(h << 16) }

func number32(u uint32) float32 { return math.Float32frombits(u) }

func bitsOf(x float32) uint32 { return math.Float32bits(x) }
