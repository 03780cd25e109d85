package portable

import "math"

const (
	log2e       = 1.4426950408889634073599246810018920
	ln2Upper    = 0.69314718055966295651160180568695068359375
	ln2Lower    = 0.28235290563031577122588448175013436025525412068e-12
	expOverflow = 7.09782712893384e+02
)

// Exp is e^x.
//
// x = k·ln 2 + r; e^(r/16) - 1 by its Taylor series, squared four times as (1+y)² - 1 = y·(y+2); times 2^k.
// After N. Shibata, ISC 2010, as math's assembly for x86-64 has it where the CPU has FMA.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x > expOverflow:
		return math.Inf(1)
	case x < -746: // below half of the smallest denormal
		return 0
	}
	k := math.RoundToEven(float64(x * log2e))
	r := math.FMA(-k, ln2Upper, x)
	r = float64(math.FMA(-k, ln2Lower, r) * 0.0625)
	p := math.FMA(2.4801587301587301587e-5, r, 1.9841269841269841270e-4)
	p = math.FMA(p, r, 1.3888888888888888889e-3)
	p = math.FMA(p, r, 8.3333333333333333333e-3)
	p = math.FMA(p, r, 4.1666666666666666667e-2)
	p = math.FMA(p, r, 1.6666666666666666667e-1)
	p = math.FMA(p, r, 0.5)
	p = math.FMA(p, r, 1)
	y := float64(r * p)
	y = float64(y * (y + 2))
	y = float64(y * (y + 2))
	y = float64(y * (y + 2))
	return scaled(math.FMA(y+2, y, 1), int(k))
}

// scaled is y·2^k, with zero for k below -1075 and infinity above 1023.
func scaled(y float64, k int) float64 {
	const bias = 1023
	switch {
	case k > bias:
		return math.Inf(1)
	case k > -bias:
		return y * math.Float64frombits(uint64(k+bias)<<52)
	case k < -bias-52:
		return 0
	}
	return y * math.Float64frombits(uint64(k+2*bias-1)<<52) * math.Float64frombits(1<<52)
}

// Expm1 is e^x - 1, exact near zero.
//
// x = k·ln 2 + r with r's rounding c: a rational function for e^r - 1, then the power of two and the one by cases
// of k, so that nothing cancels. After FreeBSD's s_expm1.c.
func Expm1(x float64) float64 {
	const overflow, vanishes = 7.09782712893383973096e+02, 3.88162421113569373274e+01 // 56·ln 2
	switch {
	case math.IsInf(x, 1) || math.IsNaN(x):
		return x
	case x <= -vanishes:
		return -1
	case x >= overflow:
		return math.Inf(1)
	case math.Abs(x) < 1.0/(1<<54):
		return x
	}
	x, c, k := nearZero(x)
	half := 0.5 * x
	z := float64(x * half)
	r := polynomial(z, 1, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05,
		4.00821782732936239552e-06, -2.01099218183624371326e-07)
	t := 3 - float64(r*half)
	e := float64(z * ((r - t) / (6 - float64(x*t))))
	if k == 0 {
		return x - (float64(x*e) - z)
	}
	return minusOne(x, float64(x*(e-c))-c-z, k)
}

// nearZero splits x = k·ln 2 + r, with c the rounding error of r.
func nearZero(x float64) (r, c float64, k int) {
	const halfLn2, threeHalves = 3.46573590279972654709e-01, 1.03972077083991796413e+00
	n := 1.0
	switch {
	case math.Abs(x) <= halfLn2:
		return x, 0, 0
	case math.Abs(x) >= threeHalves:
		n = math.Trunc(float64(1.44269504088896338700e+00*math.Abs(x)) + 0.5)
	}
	n = math.Copysign(n, x)
	high, low := x-float64(n*ln2Hi), float64(n*ln2Lo)
	r = high - low
	return r, (high - r) - low, int(n)
}

// minusOne is 2^k·(1 + x - e) - 1 for a k that is not 0.
func minusOne(x, e float64, k int) float64 {
	power := func(y float64) float64 { return math.Float64frombits(math.Float64bits(y) + uint64(k)<<52) }
	switch {
	case k == -1:
		return float64(0.5*(x-e)) - 0.5
	case k == 1 && x < -0.25:
		return -2 * (e - (x + 0.5))
	case k == 1:
		return 1 + float64(2*(x-e))
	case k <= -2 || k > 56:
		return power(1-(e-x)) - 1
	case k < 20:
		return power(1 - math.Ldexp(1, -k) - (e - x))
	}
	return power(x - (e + math.Ldexp(1, -k)) + 1)
}
