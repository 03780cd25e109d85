package portable

import "math"

// Pow is x^y: whole powers by squaring, the rest of the exponent, at most a half, by Exp and Log. Its special cases
// are those of math.Pow.
func Pow(x, y float64) float64 {
	switch {
	case special(x, y):
		return math.Pow(x, y) // without arithmetic: a constant or x
	case y == 0.5:
		return math.Sqrt(x)
	case y == -0.5:
		return 1 / math.Sqrt(x)
	}
	whole, part := math.Modf(math.Abs(y))
	result, exponent := 1.0, 0
	if part != 0 {
		if part > 0.5 {
			part--
			whole++
		}
		result = Exp(float64(part * Log(x)))
	}
	factor, e := math.Frexp(x)
	for i := int64(whole); i != 0; i >>= 1 {
		if e < -1<<12 || 1<<12 < e { // the result is zero or infinite, and the next doubling of e must not overflow
			exponent += e
			break
		}
		if i&1 == 1 {
			result = float64(result * factor)
			exponent += e
		}
		factor = float64(factor * factor)
		e <<= 1
		if factor < 0.5 {
			factor += factor
			e--
		}
	}
	if y < 0 {
		result, exponent = 1/result, -exponent
	}
	return math.Ldexp(result, exponent)
}

// special reports whether the rules of IEEE 754 define x^y.
func special(x, y float64) bool {
	return x == 0 || x == 1 || y == 0 || y == 1 || math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 0) ||
		math.Abs(y) >= 1<<63 || x < 0 && y != math.Trunc(y)
}
