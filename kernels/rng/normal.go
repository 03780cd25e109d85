package rng

import "math"

// Normals, by the method of Box and Muller (1958): two words x, y give
//
//	u = (x + 1/2)·2^-32, v = (y + 1/2)·2^-32
//	r = sqrt(-2 ln u);  sin(2πv)·r, cos(2πv)·r
//
// Elements 2i and 2i+1 are made of words 2i and 2i+1, so any part of a sequence
// can be drawn alone. All 32 bits of x count: the tails reach 6.7 deviations.
//
// Every operation below is a single fp32 addition, product or square root,
// rounded to nearest even, or an integer operation. No value comes near the
// denormals. So every path that does the same operations in the same order
// returns the same bits. Products that are added are written float32(a*b) + c,
// which keeps the compiler from fusing them.
//
// Invariants: any part equals that part of the whole; moments, distribution
// (Kolmogorov-Smirnov) and tails are those of the normal; r, sin and cos are
// within 4e-7 of float64's, r relative to its size.

// Coefficients from the highest power, those of Cephes's logf, sinf and cosf:
// ln(1+f) = f - f²/2 + f³·logP(f) on [1/√2-1, √2-1], and with z = t²,
// sin t = t + t·z·sinP(z), cos t = 1 - z/2 + z²·cosP(z) on [-π/4, π/4].
var (
	logP = [9]float32{
		7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
	}
	sinP = [3]float32{-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}
	cosP = [3]float32{2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}
)

const (
	ln2Hi = float32(0.693359375) // few bits: a product with an exponent is exact
	ln2Lo = float32(-2.12194440e-4)
	turn  = float32(2 * math.Pi / (1 << 32))
)

// Normal fills dst with the standard normals start, start+1, ...
func (k Key) Normal(dst []float32, start uint64) {
	eachBlock(k, len(dst), start, func(at, from, to int, w [4]uint32) {
		var z [4]float32
		z[0], z[1] = boxMuller(w[0], w[1])
		z[2], z[3] = boxMuller(w[2], w[3])
		copy(dst[at:], z[from:to])
	})
}

// boxMuller makes two normals of two words.
func boxMuller(x, y uint32) (float32, float32) {
	r := radius(x)
	s, c := circle(y)
	return float32(r * s), float32(r * c)
}

// radius is sqrt(-2 ln((x + 1/2)/2^32)).
func radius(x uint32) float32 {
	u := float32(float32(x)*0x1p-32) + 0x1p-33
	// u = 2^e·(1 + f) with 1 + f between √½ and √2.
	b := math.Float32bits(u)
	e := int32(b-0x3f3504f3) >> 23
	f := math.Float32frombits(b-uint32(e)<<23) - 1
	if e == 0 { // f is u - 1: take 1 - u from x, before u was rounded
		f = -(float32(float32(^x)*0x1p-32) + 0x1p-33)
	}
	n := float32(e)

	z := float32(f * f)
	p := horner(logP[:], f)
	p = float32(float32(p*f) * z)
	p = float32(n*ln2Lo) + p
	p = p - float32(0.5*z)
	ln := float32(n*ln2Hi) + (f + p)
	return float32(math.Sqrt(float64(float32(-2 * ln))))
}

// circle is the sine and cosine of the angle y + 1/2, in parts of 2^32 of a turn.
// The nearest quarter turn is taken off in integers, which is exact.
func circle(y uint32) (sin, cos float32) {
	w := y + 1<<29
	quarter := w >> 30
	t := float32(float32(int32(y-quarter<<30))*turn) + turn/2

	z := float32(t * t)
	s := t + float32(float32(horner(sinP[:], z)*z)*t)
	c := float32(float32(horner(cosP[:], z)*z)*z) - float32(0.5*z) + 1
	switch quarter {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	}
	return -c, s
}

// horner evaluates a polynomial, each product and each sum rounded.
func horner(p []float32, x float32) float32 {
	y := p[0]
	for _, c := range p[1:] {
		y = float32(y*x) + c
	}
	return y
}
