package main

// The activations of package ref, operation by operation. Each leaves its result in
// register 0, where its operand was; 1 to 6 are scratch, as far as said.

// The constants of ref's activations.go and exp.go.
const (
	geluA     = float32(1.5957691216)
	geluB     = float32(0.0713548162)
	quickK    = float32(1.702)
	rootHalf  = float32(0.70710678119)
	rootTwoPi = float32(0.39894228040)
	log2E     = float32(1.44269504088896341)
	ln2Hi     = float32(0.693359375)
	ln2Lo     = float32(-2.12194440e-4)
)

var (
	expQ = []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
	erfC = []float32{0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223}
)

// exp is e^x in place; n, q and t are lost. Beyond [-88, 89] it is 0 or Inf anyway, so
// arguments are held there; VMINPS and VMAXPS hand on the NaN of their last operand.
func (v *vector) exp(x, n, q, t int) { v.expOver(anyNumber, x, n, q, t) }

// domain is what exp's argument may be, besides a NaN.
type domain bool

const (
	anyNumber domain = false
	belowZero domain = true // at most 0
)

func (v *vector) expOver(d domain, x, n, q, t int) {
	if v.neon {
		v.expNEON(d, x, n, q, t)
		return
	}
	v.op("VMOVUPS", v.f32(-88), t)
	v.op("VMAXPS", x, t, x)
	if d == anyNumber {
		v.op("VMOVUPS", v.f32(89), t)
		v.op("VMINPS", x, t, x)
	}
	v.op("VMULPS", v.f32(log2E), x, n)
	v.nearest(n, n)
	v.op("VFMADD231PS", v.f32(-ln2Hi), n, x)
	v.op("VFMADD231PS", v.f32(-ln2Lo), n, x)
	v.horner(expQ, x, q)
	v.op("VMULPS", x, x, t)
	v.op("VFMADD213PS", x, t, q)
	v.op("VADDPS", v.f32(1), q, q)
	v.scale(q, n, t, x)
}

// horner is a polynomial at x into p, fused.
func (v *vector) horner(c []float32, x, p int) {
	if v.neon {
		v.hornerNEON(c, x, p)
		return
	}
	v.op("VMOVUPS", v.f32(c[0]), p)
	for _, k := range c[1:] {
		v.op("VFMADD213PS", v.f32(k), x, p)
	}
}

func (v *vector) negate(x, to int) { v.logic("VPXOR", v.u32(1<<31), x, to) }

// gated is x/(1 + e^-z) into z; n, q, t are lost.
func (v *vector) gated(x any, z, n, q, t int) {
	v.negate(z, z)
	v.exp(z, n, q, t)
	v.op("VADDPS", v.f32(1), z, z)
	if one, ok := x.(float32); ok {
		v.op("VMOVUPS", v.f32(one), n)
		x = n
	}
	v.op("VDIVPS", z, x, z)
}

// gatedGrad is s + (x·dz)·(s·(1-s)) into z, s = sigmoid(z); x, n, q, t are lost.
func (v *vector) gatedGrad(x, z, dz, n, q, t int) {
	v.gated(float32(1), z, n, q, t)
	v.op("VMULPS", dz, x, x)
	v.op("VMOVUPS", v.f32(1), n)
	v.op("VSUBPS", z, n, n)
	v.op("VMULPS", n, z, n)
	v.op("VFMADD231PS", n, x, z)
}

// geluArgument is x·fma(x², b, a) into z, with x² in t.
func (v *vector) geluArgument(x, z, t int) {
	v.op("VMULPS", x, x, t)
	v.op("VMOVUPS", v.f32(geluB), z)
	v.op("VFMADD213PS", v.f32(geluA), t, z)
	v.op("VMULPS", z, x, z)
}

// normalCDF is Φ(x) into p; z, n, q, t are lost. c stands in p until exp is through.
func (v *vector) normalCDF(x, p, z, n, q, t int) {
	v.logic("VPAND", v.u32(0x7fff_ffff), x, z)
	v.op("VMULPS", v.f32(rootHalf), z, z)
	v.op("VMOVUPS", v.f32(0.5), n)
	v.op("VFMADD213PS", v.f32(1), z, n)
	v.op("VMOVUPS", v.f32(1), t)
	v.op("VDIVPS", n, t, t)
	v.horner(erfC, t, p)
	v.op("VFNMADD231PS", z, z, p)
	v.op("VMULPS", v.f32(0.5), t, z)
	v.exp(p, n, q, t)
	v.op("VMULPS", p, z, p)
	v.op("VMOVUPS", v.f32(1), t)
	v.op("VSUBPS", p, t, t)
	v.ifPositive(x, t, p, p, n)
}

// activations are the functions in the order of kernels.UnaryOp: of register 0. Long ones
// name the number of registers that they use (0: their masks stand in the way, or they
// are short).
var activations = []struct {
	name           string
	regs, gradRegs int
	act, grad      func(v *vector)
}{
	{"Identity", 0, 0, func(v *vector) { v.op("VMULPS", v.f32(1), 0, 0) },
		func(v *vector) { v.op("VMOVUPS", v.f32(1), 0) }},
	{"GELUTanh", 5, 6, func(v *vector) {
		v.geluArgument(0, 1, 2)
		v.gated(0, 1, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}, func(v *vector) {
		v.geluArgument(0, 1, 5)
		v.op("VMOVUPS", v.f32(3*geluB), 2)
		v.op("VFMADD213PS", v.f32(geluA), 2, 5)
		v.gatedGrad(0, 1, 5, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}},
	{"GELUErf", 0, 0, func(v *vector) {
		v.normalCDF(0, 1, 2, 3, 4, 5)
		v.op("VMULPS", 1, 0, 0)
	}, func(v *vector) {
		v.normalCDF(0, 1, 2, 3, 4, 5)
		v.op("VMULPS", v.f32(-0.5), 0, 2)
		v.op("VMULPS", 0, 2, 2)
		v.exp(2, 3, 4, 5)
		v.op("VMULPS", v.f32(rootTwoPi), 0, 0)
		v.op("VFMADD213PS", 1, 2, 0)
	}},
	{"QuickGELU", 5, 6, func(v *vector) {
		v.op("VMULPS", v.f32(quickK), 0, 1)
		v.gated(0, 1, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}, func(v *vector) {
		v.op("VMULPS", v.f32(quickK), 0, 1)
		v.op("VMOVUPS", v.f32(quickK), 5)
		v.gatedGrad(0, 1, 5, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}},
	{"SiLU", 5, 6, func(v *vector) {
		v.op("VMOVAPS", 0, 1)
		v.gated(0, 1, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}, func(v *vector) {
		v.op("VMOVAPS", 0, 1)
		v.op("VMOVUPS", v.f32(1), 5)
		v.gatedGrad(0, 1, 5, 2, 3, 4)
		v.op("VMOVAPS", 1, 0)
	}},
	{"ReLU", 0, 0, func(v *vector) {
		v.op("VMULPS", v.f32(1), 0, 0) // a denormal becomes the zero of its sign
		v.logic("VPXOR", 1, 1, 1)
		v.op("VMAXPS", 0, 1, 0)
	}, func(v *vector) {
		v.op("VMOVUPS", v.f32(1), 1)
		v.logic("VPXOR", 2, 2, 2)
		v.ifPositive(0, 1, 2, 0, 3)
	}},
	{"Sigmoid", 4, 4, func(v *vector) {
		v.gated(float32(1), 0, 1, 2, 3)
	}, func(v *vector) {
		v.gated(float32(1), 0, 1, 2, 3)
		v.op("VMOVUPS", v.f32(1), 1)
		v.op("VSUBPS", 0, 1, 1)
		v.op("VMULPS", 1, 0, 0)
	}},
	{"Tanh", 4, 4, func(v *vector) { v.tanh() }, func(v *vector) {
		v.tanh()
		v.op("VMOVAPS", 0, 1)
		v.op("VFNMADD213PS", v.f32(1), 1, 0)
	}},
	{"Exp", 4, 4, func(v *vector) { v.exp(0, 1, 2, 3) }, func(v *vector) { v.exp(0, 1, 2, 3) }},
	{"Square", 0, 0, func(v *vector) { v.op("VMULPS", 0, 0, 0) }, func(v *vector) { v.op("VMULPS", v.f32(2), 0, 0) }},
}

func (v *vector) tanh() {
	v.op("VMULPS", v.f32(2), 0, 0)
	v.exp(0, 1, 2, 3)
	v.op("VADDPS", v.f32(1), 0, 0)
	v.op("VMOVUPS", v.f32(2), 1)
	v.op("VDIVPS", 0, 1, 0)
	v.op("VMOVUPS", v.f32(1), 1)
	v.op("VSUBPS", 0, 1, 0)
}
