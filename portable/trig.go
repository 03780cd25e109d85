package portable

import "math"

// octant reduces x ≥ 0 to z in [-π/4, π/4] around a multiple of π/2, which is j/2 mod 4. Above 2^29, x is first
// reduced by the float64 that is 2π.
func octant(x float64) (j uint64, z float64) {
	if x >= 1<<29 {
		x = math.Mod(x, 2*math.Pi)
	}
	j = uint64(float64(x * (4 / math.Pi)))
	j += j & 1
	y := float64(j)
	z = x - float64(y*7.85398125648498535156e-1)
	z -= float64(y * 3.77489470793079817668e-8)
	z -= float64(y * 2.69515142907905952645e-15)
	return j & 7, z
}

// sine and cosine are of |z| ≤ π/4. After Cephes' sin.c.
func sine(z float64) float64 {
	w := float64(z * z)
	p := polynomial(w, -1.66666666666666307295e-1, 8.33333333332211858878e-3, -1.98412698295895385996e-4,
		2.75573136213857245213e-6, -2.50507477628578072866e-8, 1.58962301576546568060e-10)
	return z + float64(float64(z*w)*p)
}

func cosine(z float64) float64 {
	w := float64(z * z)
	p := polynomial(w, 4.16666666666665929218e-2, -1.38888888888730564116e-3, 2.48015872888517045348e-5,
		-2.75573141792967388112e-7, 2.08757008419747316778e-9, -1.13585365213876817300e-11)
	return 1 - float64(0.5*w) + float64(float64(w*w)*p)
}

// Sin is the sine of x radians.
func Sin(x float64) float64 {
	if x == 0 || math.IsNaN(x) {
		return x
	}
	if math.IsInf(x, 0) {
		return math.NaN()
	}
	y := turned(octant(math.Abs(x)))
	if x < 0 {
		return -y
	}
	return y
}

// Cos is the cosine of x radians.
func Cos(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return math.NaN()
	}
	j, z := octant(math.Abs(x))
	return turned((j+2)&7, z)
}

// turned is the sine of z + j·π/4, for an even j.
func turned(j uint64, z float64) float64 {
	switch j {
	case 0:
		return sine(z)
	case 2:
		return cosine(z)
	case 4:
		return -sine(z)
	}
	return -cosine(z)
}

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
