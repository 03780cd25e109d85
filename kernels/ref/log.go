package ref

import "math"

// Log is the natural logarithm: x = 2^e·(1+f) with 1+f between √½ and √2, and
// ln(1+f) = f - f²/2 + f³·p(f), p of degree 8 (Cephes's logf). Error below 2 ulp.
// A zero (or a denormal) gives -Inf, a negative number NaN.

// logP are the coefficients of p, from the highest power.
var logP = [9]float32{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}

// Log is ln x.
func Log(x float32) float32 {
	x = Flush(x)
	switch {
	case x != x || x < 0:
		return float32(math.NaN())
	case x == 0:
		return float32(math.Inf(-1))
	case x > math.MaxFloat32:
		return x
	}
	b := math.Float32bits(x)
	e := int32(b-0x3f3504f3) >> 23
	f := Sub(math.Float32frombits(b-uint32(e)<<23), 1)
	n := float32(e)
	z := Mul(f, f)
	p := logP[0]
	for _, c := range logP[1:] {
		p = FMA(p, f, c)
	}
	p = Mul(Mul(p, f), z)
	p = FMA(n, ln2Lo, p)
	p = FMA(-0.5, z, p)
	return FMA(n, ln2Hi, Add(f, p))
}
