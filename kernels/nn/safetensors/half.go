package safetensors

import "math"

// fromF16 widens 1 sign bit, 5 exponent bits, 10 fraction bits.
func fromF16(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case exp-1 < 30: // normal, nearly always
		return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
	case exp == 0: // frac · 2^-24, a normal float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case frac != 0:
		return math.Float32frombits(sign | 0x7fc0_0000 | frac<<13) // NaN, quiet
	}
	return math.Float32frombits(sign | 0x7f80_0000)
}

// fromF8 widens F8E5M2, which is F16's upper half, and F8E4M3, which has no
// infinity: its largest code is NaN, the one below it 448.
func fromF8(d DType, b byte) float32 {
	if d == F8E5M2 {
		return fromF16(uint16(b) << 8)
	}
	sign, exp, frac := uint32(b>>7)<<31, uint32(b>>3&15), uint32(b&7)
	switch {
	case b&0x7f == 0x7f:
		return math.Float32frombits(sign | 0x7fc0_0000)
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-9))
	}
	return math.Float32frombits(sign | (exp+127-7)<<23 | frac<<20)
}

// toBF16 rounds to nearest, ties to even: half a unit is added, less one where
// the kept part is even.
func toBF16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// toOdd rounds a float64 to float32 such that rounding the result again to fewer
// bits is rounding the float64 once: truncated, with the last bit set where
// anything was cut off.
func toOdd(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	u := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		u-- // rounded away from zero, to infinity perhaps
	}
	return math.Float32frombits(u | 1)
}

// toF16 rounds to nearest, ties to even; what is too large becomes infinite.
func toF16(x float32) uint16 {
	u := math.Float32bits(x)
	sign := uint16(u >> 16 & 0x8000)
	a := math.Float32frombits(u &^ (1 << 31))
	switch {
	case x != x:
		return sign | 0x7e00
	case a >= 65520: // half a unit above the largest
		return sign | 0x7c00
	case a < 0x1p-14: // subnormal: a whole number of 2^-24; the product is exact
		return sign | uint16(math.RoundToEven(float64(a)*0x1p24))
	}
	u &^= 1 << 31
	u += 0xfff + u>>13&1
	return sign | uint16((u-(127-15)<<23)>>13)
}
