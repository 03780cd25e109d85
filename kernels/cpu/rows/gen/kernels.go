package main

var (
	same = []string{"ff", "bb"}
	all  = []string{"ff", "bb", "bf", "fb"}
)

// kernels are the kernels of every path, in the order of the table.
func kernels() []kernel {
	var out []kernel
	for _, f := range activations {
		k := kernel{name: "act" + f.name, src: "x", dst: "x", variants: same, abreast: f.regs, body: func(v *vector) {
			v.load(0, 0)
			f.act(v)
			v.store(0, 1)
		}}
		if f.name == "Identity" {
			k.variants, k.cast = all, true
		}
		out = append(out, k)
	}
	for _, f := range activations {
		out = append(out, kernel{name: "grad" + f.name, src: "xx", dst: "x", variants: same, abreast: f.gradRegs, body: func(v *vector) {
			v.load(0, 0)
			f.grad(v)
			v.load(1, 1)
			v.op("VMULPS", 0, 1, 0)
			v.store(0, 1)
		}})
	}
	for _, inst := range [][2]string{{"add", "VADDPS"}, {"sub", "VSUBPS"}, {"mul", "VMULPS"}, {"div", "VDIVPS"}} {
		out = append(out, kernel{name: inst[0], src: "xx", dst: "x", variants: same, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.op(inst[1], 1, 0, 0)
			v.store(0, 1)
		}})
	}
	out = append(append(out, formulas()...), groupNorm()...)
	return append(out, kernel{name: "taps", variants: []string{"ff"}, taps: true})
}

func formulas() []kernel {
	scalarThen := func(f func(v *vector)) func(v *vector) {
		return func(v *vector) {
			v.load(0, 0)
			v.scalar(0, 1)
			f(v)
			v.store(0, 1)
		}
	}
	return []kernel{
		// s0·x, the products of softmax and of solvers.
		{name: "times", src: "x", dst: "x", variants: all, body: scalarThen(func(v *vector) { v.op("VMULPS", 1, 0, 0) })},
		// fma(s0, x, y)
		{name: "addTimes", src: "xx", dst: "x", variants: same, body: scalarThen(func(v *vector) {
			v.load(1, 2)
			v.op("VFMADD213PS", 2, 1, 0)
		})},
		// fma(s1, y, s0·x)
		{name: "axpby", src: "xx", dst: "x", variants: same, body: scalarThen(func(v *vector) {
			v.op("VMULPS", 1, 0, 0)
			v.load(1, 2)
			v.scalar(1, 1)
			v.op("VFMADD231PS", 2, 1, 0)
		})},
		// fma(x, 1 + y, z) and fma(x, y, z)
		{name: "modulate", src: "xxx", dst: "x", variants: same, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.load(2, 2)
			v.op("VADDPS", v.f32(1), 1, 1)
			v.op("VFMADD213PS", 2, 1, 0)
			v.store(0, 1)
		}},
		{name: "fma", src: "xxx", dst: "x", variants: same, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.load(2, 2)
			v.op("VFMADD213PS", 2, 1, 0)
			v.store(0, 1)
		}},
		// 1 + x
		{name: "onePlus", src: "x", dst: "x", variants: []string{"ff"}, body: func(v *vector) {
			v.load(0, 0)
			v.op("VADDPS", v.f32(1), 0, 0)
			v.store(0, 1)
		}},
		// n = (x - s0)·s1; fma(n, w, b); and then fma(that, w', b')
		{name: "normAlone", src: "x", dst: "x", variants: all, body: func(v *vector) {
			v.unit()
			v.store(0, 1)
		}},
		{name: "norm", src: "xff", dst: "x", variants: append(same[:len(same):len(same)], "fb"), body: func(v *vector) {
			v.normalised()
			v.store(0, 1)
		}},
		{name: "normTwice", src: "xffff", dst: "x", variants: append(same[:len(same):len(same)], "fb"), body: func(v *vector) {
			v.normalised()
			v.load(3, 1)
			v.load(4, 2)
			v.op("VFMADD213PS", 2, 1, 0)
			v.store(0, 1)
		}},
		// fma(-n, s1, g - s0)·s2
		{name: "normGrad", src: "ff", dst: "x", variants: []string{"ff", "fb"}, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.scalar(0, 2)
			v.op("VSUBPS", 2, 1, 1)
			v.scalar(1, 2)
			v.op("VFNMADD231PS", 2, 0, 1)
			v.scalar(2, 2)
			v.op("VMULPS", 2, 1, 1)
			v.store(1, 2)
		}},
		// y·(dy - s0)
		{name: "softmaxGrad", src: "xx", dst: "x", variants: same, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.scalar(0, 2)
			v.op("VSUBPS", 2, 1, 1)
			v.op("VMULPS", 1, 0, 0)
			v.store(0, 1)
		}},
		// e^(x - s0) and its sum; s1·e^(x - s0)
		{name: "expSum", src: "xpw", dst: "f", variants: []string{"ff", "bf"}, sum: true, abreast: 4, body: func(v *vector) {
			v.shiftedExp(belowZero)
			v.add(0, 1)
			v.store(0, 1)
		}},
		{name: "expTimes", src: "f", dst: "f", variants: []string{"ff"}, abreast: 4, body: func(v *vector) {
			v.shiftedExp(anyNumber)
			v.scalar(1, 1)
			v.op("VMULPS", 1, 0, 0)
			v.store(0, 1)
		}},
		// Sums: x, x·y, (x - s0)², the maximum.
		{name: "sum", src: "x", variants: []string{"ff", "bf"}, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.add(0, 1)
		}},
		// x and its sum: a row of bf16 is widened once
		{name: "sumWide", src: "x", dst: "f", variants: []string{"bf"}, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.keep(0)
			v.add(0, 1)
		}},
		{name: "dot", src: "xx", variants: []string{"ff", "bf"}, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.fma(0, 1, 2)
		}},
		{name: "squares", src: "x", variants: []string{"ff", "bf"}, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.scalar(0, 1)
			v.op("VSUBPS", 1, 0, 0)
			v.fma(0, 0, 2)
		}},
		{name: "most", src: "x", variants: []string{"ff", "bf"}, max: true, body: func(v *vector) {
			v.load(0, 0)
			v.most(0, 1)
		}},
		// Down the rows: x, x·y.
		{name: "columnSum", src: "x", variants: []string{"ff", "bf"}, columns: true, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.add(0, 1)
		}},
		{name: "columnDot", src: "xx", variants: []string{"ff", "bf"}, columns: true, sum: true, body: func(v *vector) {
			v.load(0, 0)
			v.load(1, 1)
			v.fma(0, 1, 2)
		}},
		// The same of x - y and of its square, y a row: two results.
		{name: "columnMoments", src: "xxm", variants: []string{"ff", "bf"}, columns: true, moments: true, sum: true},
		// AdamW: the moments, and the step of p. Numbers: GradScale, 1-Beta1, 1-Beta2, Beta2, RootScale, Eps, Step, 1
		// - Rate·Decay.
		{name: "momentum", src: "ff", dst: "f", variants: []string{"ff"}, body: func(v *vector) {
			v.load(0, 0)
			v.scalar(0, 1)
			v.op("VMULPS", 1, 0, 0)
			v.load(1, 1)
			v.op("VSUBPS", 1, 0, 0)
			v.scalar(1, 2)
			v.op("VFMADD231PS", 2, 0, 1)
			v.store(1, 2)
		}},
		{name: "variance", src: "ff", dst: "f", variants: []string{"ff"}, body: func(v *vector) {
			v.load(0, 0)
			v.scalar(0, 1)
			v.op("VMULPS", 1, 0, 0)
			v.op("VMULPS", 0, 0, 0)
			v.load(1, 1)
			v.scalar(3, 2)
			v.op("VMULPS", 2, 1, 1)
			v.scalar(2, 2)
			v.op("VFMADD231PS", 2, 0, 1)
			v.store(1, 2)
		}},
		{name: "descend", src: "fff", dst: "f", variants: []string{"ff"}, body: func(v *vector) {
			v.load(2, 2)
			v.op("VSQRTPS", 2, 2)
			v.scalar(4, 3)
			v.scalar(5, 4)
			v.op("VFMADD213PS", 4, 3, 2)
			v.load(1, 1)
			v.scalar(6, 3)
			v.op("VMULPS", 3, 1, 1)
			v.op("VDIVPS", 2, 1, 1)
			v.load(0, 0)
			v.scalar(7, 3)
			v.op("VMULPS", 3, 0, 0)
			v.op("VSUBPS", 1, 0, 0)
			v.store(0, 1)
		}},
	}
}

// unit is (x - s0)·s1 of source 0, and normalised fma(that, w, b) of sources 1 and 2.
func (v *vector) unit() {
	v.load(0, 0)
	v.scalar(0, 1)
	v.op("VSUBPS", 1, 0, 0)
	v.scalar(1, 1)
	v.op("VMULPS", 1, 0, 0)
}

func (v *vector) normalised() {
	v.unit()
	v.load(1, 1)
	v.load(2, 2)
	v.op("VFMADD213PS", 2, 1, 0)
}

func (v *vector) shiftedExp(d domain) {
	v.load(0, 0)
	v.scalar(0, 1)
	v.op("VSUBPS", 1, 0, 0)
	v.expOver(d, 0, 1, 2, 3)
}

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

// domain is the range of exp's argument, besides a NaN.
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

// groupNorm is the kernels over rows of pixels with numbers for each channel. A kernel that writes a result has a
// twin, next to it, that writes past the caches.
func groupNorm() []kernel {
	var out []kernel
	for _, k := range []kernel{
		// fma(x - mean, w, b), and SiLU of it
		{name: "group", src: "xccc", dst: "x", variants: same, rows: true, body: func(v *vector) {
			v.channel(1)
			v.store(0, 1)
		}},
		{name: "groupSiLU", src: "xccc", dst: "x", variants: same, rows: true, abreast: activations[4].regs, body: func(v *vector) {
			v.channel(1)
			activations[4].act(v)
			v.store(0, 1)
		}},
		// fma(-n, m2, d·w - m1)·rstd of n, d, m2, w, m1, rstd
		{name: "groupGrad", src: "ffcccc", dst: "x", variants: []string{"ff", "fb"}, rows: true, body: func(v *vector) {
			v.load(1, 1)
			v.op("VMULPS", v.per(3, 2), 1, 1)
			v.op("VSUBPS", v.per(4, 2), 1, 1)
			v.load(0, 0)
			v.op("VFNMADD231PS", v.per(2, 2), 0, 1)
			v.op("VMULPS", v.per(5, 2), 1, 1)
			v.store(1, 2)
		}},
	} {
		twin := k
		twin.name, twin.past = k.name+"Past", true
		out = append(out, k, twin)
	}
	return append(out,
		// SiLU's derivative at fma(x - mean, w, b), times dy
		kernel{name: "groupSlope", src: "xxccc", dst: "f", variants: []string{"ff", "bf"}, rows: true, abreast: activations[4].gradRegs, body: func(v *vector) {
			v.channel(2)
			activations[4].grad(v)
			v.load(1, 1)
			v.op("VMULPS", 0, 1, 0)
			v.store(0, 1)
		}},
		// (x - mean)·rstd
		kernel{name: "groupUnit", src: "xcc", dst: "f", variants: []string{"ff", "bf"}, rows: true, body: func(v *vector) {
			v.load(0, 0)
			v.op("VSUBPS", v.per(1, 1), 0, 0)
			v.op("VMULPS", v.per(2, 1), 0, 0)
			v.store(0, 1)
		}})
}

// channel is fma(x - mean, w, b) of source 0 and the channels' numbers from source i on.
func (v *vector) channel(i int) {
	v.load(0, 0)
	v.op("VSUBPS", v.per(i, 1), 0, 0)
	v.op("VFMADD213PS", v.per(i+2, 2), v.per(i+1, 1), 0)
}
