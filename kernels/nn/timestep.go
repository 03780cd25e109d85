package nn

import "math"

// The sinusoidal embedding of time, with diffusers' conventions:
//
//	f[i] = exp(-ln(10000)·i / (half - Shift)), i = 0 ... half-1
//	sin(Scale·t·f), cos(Scale·t·f); cosines first where CosFirst (flip_sin_to_cos)
//
// Frequencies and phases are rounded to fp32 as PyTorch rounds them, and the functions
// are polynomials in float64 with each operation rounded: the same bits on every machine.
//
// Invariant (tests): within one unit in the last place of math.Exp, Sin and Cos.

// Timestep says how time is embedded.
type Timestep struct {
	Dim      int
	CosFirst bool
	Shift    float32 // downscale_freq_shift: 0 in SD3, FLUX and U-Nets, 1 in the original
	Scale    float32 // 0 means 1
}

// Embed is [len(t), Dim], row after row.
func (o Timestep) Embed(t []float32) []float32 {
	half, scale := o.Dim/2, o.Scale
	if scale == 0 {
		scale = 1
	}
	out := make([]float32, len(t)*o.Dim)
	sinAt, cosAt := 0, half
	if o.CosFirst {
		sinAt, cosAt = half, 0
	}
	const log10000 = 9.210340371976184
	for i := range half {
		exponent := float32(float32(-log10000)*float32(i)) / (float32(half) - o.Shift)
		f := float32(Exp(float64(exponent)))
		for s, v := range t {
			phase := float32(scale * float32(v*f))
			sin, cos := Sincos(float64(phase))
			out[s*o.Dim+sinAt+i], out[s*o.Dim+cosAt+i] = float32(sin), float32(cos)
		}
	}
	return out
}

// horner is a polynomial, highest power first, each operation rounded.
func horner(x float64, c ...float64) float64 {
	p := 0.0
	for _, v := range c {
		p = float64(p*x) + v
	}
	return p
}

// Exp is the same on every machine: Cody and Waite's reduction, for |x| < 700.
func Exp(x float64) float64 {
	k := math.RoundToEven(float64(x * math.Log2E))
	r := x - float64(k*6.93147180369123816490e-01)
	r -= float64(k * 1.90821492927058770002e-10)
	p := horner(r, 1./6227020800, 1./479001600, 1./39916800, 1./3628800, 1./362880, 1./40320, 1./5040, 1./720, 1./120, 1./24, 1./6, 1./2, 1, 1)
	return math.Ldexp(p, int(k))
}

// Sincos is the same on every machine: for |x| < 1e6, by reduction to a quarter turn in
// three parts.
func Sincos(x float64) (sin, cos float64) {
	k := math.RoundToEven(float64(x * (2 / math.Pi)))
	r := x - float64(k*1.57079632673412561417e+00)
	r -= float64(k * 6.07710050630396597660e-11)
	r -= float64(k * 2.02226624879595063154e-21)
	z := float64(r * r)
	s := r + float64(float64(r*z)*horner(z, 1./355687428096000, -1./1307674368000, 1./6227020800, -1./39916800, 1./362880, -1./5040, 1./120, -1./6))
	c := 1 + float64(z*horner(z, 1./20922789888000, -1./87178291200, 1./479001600, -1./3628800, 1./40320, -1./720, 1./24, -1./2))
	switch int64(k) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}
