package portable

import "math"

// Points of the plane: their distance and direction.

// Hypot is √(x² + y²), without overflow on the way.
func Hypot(x, y float64) float64 {
	x, y = math.Abs(x), math.Abs(y)
	switch {
	case math.IsInf(x, 1) || math.IsInf(y, 1):
		return math.Inf(1)
	case math.IsNaN(x) || math.IsNaN(y):
		return math.NaN()
	case x < y:
		x, y = y, x
	}
	if x == 0 {
		return 0
	}
	y /= x
	return x * math.Sqrt(1+float64(y*y))
}

// Atan2 is the angle of the point (x, y), in (-π, π]. Its special cases are those of math.Atan2.
func Atan2(y, x float64) float64 {
	if x == 0 || y == 0 || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsNaN(x) || math.IsNaN(y) {
		return math.Atan2(y, x) // without arithmetic: a constant
	}
	angle := math.Copysign(arctangent(math.Abs(y/x)), y/x)
	switch {
	case x > 0:
		return angle
	case angle <= 0:
		return angle + math.Pi
	}
	return angle - math.Pi
}

// arctangent reduces x ≥ 0 to at most 0.66. After Cephes' atan.c.
func arctangent(x float64) float64 {
	const more, tan3Pi8 = 6.123233995736765886130e-17, 2.41421356237309504880
	switch {
	case x <= 0.66:
		return nearArctangent(x)
	case x > tan3Pi8:
		return math.Pi/2 - nearArctangent(1/x) + more
	}
	return math.Pi/4 + nearArctangent((x-1)/(x+1)) + 0.5*more
}

func nearArctangent(x float64) float64 {
	z := float64(x * x)
	p := polynomial(z, -6.485021904942025371773e+01, -1.228866684490136173410e+02, -7.500855792314704667340e+01,
		-1.615753718733365076637e+01, -8.750608600031904122785e-01)
	q := polynomial(z, 1.945506571482613964425e+02, 4.853903996359136964868e+02, 4.328810604912902668951e+02,
		1.650270098316988542046e+02, 2.485846490142306297962e+01, 1)
	return float64(x*(float64(z*p)/q)) + x
}
