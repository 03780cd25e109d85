package sde

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Quantiles that schedules ask for.

// betaQuantile inverts the regularised incomplete beta function by bisection.
// Invariant (test): betaCDF of it is p.
func betaQuantile(p, a, b float64) float64 {
	if p <= 0 {
		return 0
	}
	if p >= 1 {
		return 1
	}
	low, high := 0.0, 1.0
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if betaCDF(mid, a, b) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// betaCDF is the regularised incomplete beta function, by its continued fraction (Lentz).
func betaCDF(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaCDF(1-x, b, a)
	}
	front := portable.Exp(logGamma(a+b)-logGamma(a)-logGamma(b)+float64(a*portable.Log(x))+float64(b*portable.Log(1-x))) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := 0; i <= 300; i++ {
		m := float64(i / 2)
		var numerator float64
		switch {
		case i == 0:
			numerator = 1
		case i%2 == 0:
			numerator = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			numerator = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + float64(numerator*d)
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + numerator/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= float64(c * d)
		if math.Abs(1-float64(c*d)) < 1e-16 {
			break
		}
	}
	return front * (f - 1)
}

// logGamma is the logarithm of the gamma function for x > 0: Stirling's series at x + n ≥ 12,
// less log x(x+1)...(x+n-1).
func logGamma(x float64) float64 {
	product := 1.0
	for ; x < 12; x++ {
		product *= x
	}
	r := 1 / x
	z := float64(r * r)
	series := 1./1260 - float64(z*(1./1680-float64(z*(1./1188-float64(z*(691./360360))))))
	series = float64(r * (1./12 - float64(z*(1./360-float64(z*series)))))
	return float64((x-0.5)*portable.Log(x)) - x + logRoot2Pi + series - portable.Log(product)
}

// normalQuantile is the standard normal's.
func normalQuantile(p float64) float64 { return math.Sqrt2 * portable.Erfinv(2*p-1) }
