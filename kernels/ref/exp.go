package ref

import "math"

// exp and functions of it. Polynomials are Horner chains of FMA.
//
// Exp: n = round(x·log2 e); r = x - n·ln2 in two parts (Cody and Waite);
// e^r = 1 + r + r²·q(r), q of degree 4; then times 2^n. Error below 1 ulp.
// Arguments are held to [-87.3, 88.7], so that 2^n is formed from n's bits in two halves.

// The constants that assembly reads too.
const (
	Log2E  = float32(1.44269504088896341)
	ln2Hi  = float32(0.693359375)
	ln2Lo  = float32(-2.12194440e-4)
	ExpMin = float32(-87.33654)
	ExpMax = float32(88.72283)
)

// expQ are the coefficients of q, from the highest power (Cephes expf).
var expQ = [6]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// Exp is e^x: +Inf above ExpMax, 0 below ExpMin, NaN for NaN.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > ExpMax:
		return float32(math.Inf(1))
	case x < ExpMin:
		return 0
	}
	n := roundEven(Mul(x, Log2E))
	r := FMA(n, -ln2Hi, x)
	r = FMA(n, -ln2Lo, r)
	q := expQ[0]
	for _, c := range expQ[1:] {
		q = FMA(q, r, c)
	}
	y := Add(FMA(q, Mul(r, r), r), 1)
	// n reaches 128, whose power has no float32: the halves have.
	h := roundEven(Mul(n, 0.5))
	return Mul(Mul(y, exp2i(h)), exp2i(Sub(n, h)))
}

// exp2P is 2^f on [0, 1), from the highest power; its constant term is 1 exactly.
// It is short: relative error 3e-6, for bf16 attention, where the result is rounded to bf16.
var exp2P = [5]float32{0.013426702, 0.052242447, 0.24128021, 0.69304484, 1}

// Exp2Short is 2^x for x <= 0 (and a little above), with the short polynomial:
// f = x - floor(x), p(f)·2^floor(x). Below -126 it is 0.
func Exp2Short(x float32) float32 {
	if x != x {
		return x
	}
	if !(x >= -126) {
		return 0
	}
	n := float32(math.Floor(float64(x)))
	f := Sub(x, n)
	p := exp2P[0]
	for _, c := range exp2P[1:] {
		p = FMA(p, f, c)
	}
	return Mul(p, exp2i(n))
}

// exp2Q are the coefficients of (2^f - 1)/f on [-½, ½], from the highest power.
var exp2Q = [6]float32{0.000153533634, 0.0013398875, 0.00961843692, 0.0555033237, 0.240226477, 0.693147182}

// Exp2 is 2^x for x <= 0 (and a little above), to fp32's accuracy: n = round(x),
// f = x - n, (1 + f·q(f))·2^n. Below -126 it is 0.
func Exp2(x float32) float32 {
	if x != x {
		return x
	}
	if !(x >= -126) {
		return 0
	}
	n := roundEven(x)
	f := Sub(x, n)
	q := exp2Q[0]
	for _, c := range exp2Q[1:] {
		q = FMA(q, f, c)
	}
	return Mul(FMA(q, f, 1), exp2i(n))
}
