package portable

import "math"

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// series is log((1+s)/(1-s)) - 2s over s, for the square z of s, as odd and even powers.
func series(z float64) (odd, even float64) {
	w := float64(z * z)
	odd = float64(z * (6.666666666666735130e-01 + float64(w*(2.857142874366239149e-01+
		float64(w*(1.818357216161805012e-01+float64(w*1.479819860511658591e-01)))))))
	even = float64(w * (3.999999999940941908e-01 + float64(w*(2.222219843214978396e-01+float64(w*1.531383769920937332e-01)))))
	return odd, even
}

// Log is the natural logarithm.
//
// x = 2^k·(1+f), s = f/(2+f): log(1+f) = log((1+s)/(1-s)) by a polynomial in s².
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	f1, exponent := math.Frexp(x)
	if f1 <= math.Sqrt2/2 {
		f1 *= 2
		exponent--
	}
	f, k := f1-1, float64(exponent)
	s := f / (2 + f)
	odd, even := series(float64(s * s))
	half := float64(float64(0.5*f) * f)
	tail := float64(s*(half+float64(odd+even))) + float64(k*ln2Lo)
	return float64(k*ln2Hi) - ((half - tail) - f)
}

// Log2 is the logarithm to base 2, exact for powers of it.
func Log2(x float64) float64 {
	f, exponent := math.Frexp(x)
	if f == 0.5 {
		return float64(exponent - 1)
	}
	return float64(Log(f)*(1/math.Ln2)) + float64(exponent)
}

// Log10 is the logarithm to base 10.
func Log10(x float64) float64 { return float64(Log(x) * (1 / math.Ln10)) }

// Log1p is log(1+x), exact near zero.
func Log1p(x float64) float64 {
	const small, tiny = 1.0 / (1 << 29), 1.0 / (1 << 54)
	switch {
	case x < -1 || math.IsNaN(x):
		return math.NaN()
	case x == -1:
		return math.Inf(-1)
	case math.IsInf(x, 1) || math.Abs(x) < tiny:
		return x
	case math.Abs(x) < small:
		return x - float64(float64(x*x)*0.5)
	}
	f, c, k, flat := split(x)
	if flat && f == 0 && k == 0 {
		return 0
	}
	if flat && f == 0 {
		return float64(k*ln2Hi) + (c + float64(k*ln2Lo))
	}
	half := float64(float64(0.5*f) * f)
	if flat {
		r := float64(half * (1 - float64(0.66666666666666666*f)))
		if k == 0 {
			return f - r
		}
		return float64(k*ln2Hi) - ((r - (float64(k*ln2Lo) + c)) - f)
	}
	s := f / (2 + f)
	z := float64(s * s)
	p := polynomial(z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
		2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01)
	product := float64(s * (half + float64(z*p)))
	if k == 0 {
		return f - (half - product)
	}
	return float64(k*ln2Hi) - ((half - (product + (float64(k*ln2Lo) + c))) - f)
}

// split is 1+x = 2^k·(1+f) with f in [√½-1, √2-1]. c is the rounding error of 1+x, divided by it; flat: |f| is below
// 2^-20.
func split(x float64) (f, c, k float64, flat bool) {
	const sqrt2 = 0x0006a09e667f3bcd // its mantissa
	if x > -2.928932188134524755992e-01 && x < 4.142135623730950488017e-01 {
		return x, 0, 0, false
	}
	u := 1 + x
	bits := math.Float64bits(u)
	exponent := int(bits>>52) - 1023
	switch {
	case math.Abs(x) >= 1<<53:
		u, bits, exponent = x, math.Float64bits(x), int(math.Float64bits(x)>>52)-1023
	case exponent > 0:
		c = (1 - (u - x)) / u
	default:
		c = (x - (u - 1)) / u
	}
	bits &= 1<<52 - 1
	if bits < sqrt2 {
		u = math.Float64frombits(bits | 1023<<52)
	} else {
		exponent++
		u = math.Float64frombits(bits | 1022<<52)
		bits = (1<<52 - bits) >> 2
	}
	return u - 1, c, float64(exponent), bits == 0
}

// polynomial is Horner's rule over coefficients of rising powers, each operation rounded.
func polynomial(x float64, c ...float64) float64 {
	p := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		p = c[i] + float64(x*p)
	}
	return p
}
