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
