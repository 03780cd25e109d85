package ref

import "math"

// The arithmetic of the engine. Every sum, product and fused multiply-add is fp32, rounded to nearest even, and
// denormals count as zeros of their sign, on the way in and on the way out. FTZ|DAZ gives the same in assembly.

// Flush turns a denormal into the zero of its sign.
func Flush(x float32) float32 {
	u := math.Float32bits(x)
	if u&0x7f80_0000 == 0 {
		return math.Float32frombits(u & 0x8000_0000)
	}
	return x
}

// FMA is a·b + c with one rounding.
//
// The product is exact in float64. The sum is rounded to float64 and then to
// float32; that differs from one rounding only where the float64 lies exactly half
// way between two float32 and the first rounding was not exact, so that case is
// decided by the rounding error of the sum.
func FMA(a, b, c float32) float32 {
	p := float64(Flush(a)) * float64(Flush(b))
	z := float64(Flush(c))
	s := p + z
	if u := math.Float64bits(s); u&0x1fff_ffff == 0x1000_0000 {
		// TwoSum: s + e is the exact sum.
		t := s - p
		e := (p - (s - t)) + (z - t)
		if e != 0 && e == e {
			if (e > 0) == (s > 0) {
				u++
			} else {
				u--
			}
			s = math.Float64frombits(u)
		}
	}
	return tiny(s)
}

// tiny rounds a float64 to float32 with results below the normal range flushed.
// Whether a result is tiny is decided after rounding as if the exponent had no
// bound, as the x86 units do: just below 2^-126 a float64 rounds up to it or not.
func tiny(s float64) float32 {
	const least = 0x1p-126
	if s < least && s > -least {
		// Rounded to 24 bits with an unbounded exponent, does it reach 2^-126?
		if r := float32(s * 0x1p64); r >= least*0x1p64 || r <= -least*0x1p64 {
			return float32(math.Copysign(least, s))
		}
		return float32(math.Copysign(0, s))
	}
	return float32(s)
}

// Add, Sub, Mul and Div are single operations of the engine's arithmetic.
func Add(a, b float32) float32 { return tiny(float64(Flush(a)) + float64(Flush(b))) }

// Sub is a - b.
func Sub(a, b float32) float32 { return tiny(float64(Flush(a)) - float64(Flush(b))) }

// Mul is a · b.
func Mul(a, b float32) float32 { return tiny(float64(Flush(a)) * float64(Flush(b))) }

// Div is a / b. A float64 quotient of float32 operands rounds to float32 correctly.
func Div(a, b float32) float32 { return tiny(float64(Flush(a)) / float64(Flush(b))) }

// Sqrt is the correctly rounded square root.
func Sqrt(a float32) float32 { return float32(math.Sqrt(float64(Flush(a)))) }

// Max is x86's MAXPS: b where the operands compare neither way (a NaN, or two zeros).
func Max(a, b float32) float32 {
	if a > b {
		return a
	}
	return b
}

// ToBF16 rounds to the nearest bf16, ties to even: denormals become zeros, a NaN
// keeps its upper half and becomes quiet.
func ToBF16(x float32) uint16 {
	u := math.Float32bits(x)
	switch {
	case u&0x7fff_ffff > 0x7f80_0000:
		return uint16(u>>16) | 0x40
	case u&0x7f80_0000 == 0:
		return uint16(u>>16) & 0x8000
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// FromBF16 widens a bf16.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// RoundBF16 is x rounded to bf16 and widened again.
func RoundBF16(x float32) float32 { return FromBF16(ToBF16(x)) }

// roundEven is the nearest integer, ties to even, for |x| < 2^22: as VROUNDPS does.
func roundEven(x float32) float32 {
	const magic = 0x1.8p23
	return float32(float32(x+magic) - magic)
}

// exp2i is 2^n for a whole n in [-126, 127].
func exp2i(n float32) float32 { return math.Float32frombits(uint32(int32(n)+127) << 23) }
