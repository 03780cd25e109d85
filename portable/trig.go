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
