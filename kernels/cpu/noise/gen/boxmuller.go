package main

import "fmt"

// boxMuller turns the words in registers x and y into normals: rng.boxMuller,
// operation by operation. Registers 4 to 9 are scratch.
func boxMuller(v *vector, x, y int) {
	radius(v, x)
	circle(v, y)
	v.op("VMULPS", 9, x, y)
	v.op("VMULPS", 8, x, x)
}

// radius turns the words in register x into sqrt(-2 ln u).
func radius(v *vector, x int) {
	const u, n, minus, p, z, f = 4, 5, 6, 7, 8, 4
	v.note("u, its exponent n and its f, or f straight from the word where n is 0")
	v.unsigned(x, u, n)
	v.op("VMULPS", v.f32("scale", 0x1p-32), u, u)
	v.op("VADDPS", v.f32("shift", 0x1p-33), u, u)
	v.logic("VPXOR", v.u32("ones", 0xffffffff), x, x)
	v.unsigned(x, minus, n)
	v.op("VMULPS", v.f32("minusScale", -0x1p-32), minus, minus)
	v.op("VADDPS", v.f32("minusShift", -0x1p-33), minus, minus)
	v.op("VPSUBD", v.u32("rootHalf", 0x3f3504f3), u, n)
	v.op("VPSRAD", "$23", n, n)
	v.op("VPSLLD", "$23", n, p)
	v.op("VPSUBD", p, u, f)
	v.op("VSUBPS", v.f32("one", 1), f, f)
	v.ifZero(n, minus, f, f)
	v.op("VCVTDQ2PS", n, n)
	v.note("ln(1+f) + n ln 2")
	v.op("VMULPS", f, f, z)
	v.horner("log", f, p,
		7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
	v.op("VMULPS", f, p, p)
	v.op("VMULPS", z, p, p)
	v.op("VMULPS", v.f32("ln2Lo", -2.12194440e-4), n, 6)
	v.op("VADDPS", 6, p, p)
	v.op("VMULPS", v.f32("half", 0.5), z, z)
	v.op("VSUBPS", z, p, p)
	v.op("VADDPS", p, f, f)
	v.op("VMULPS", v.f32("ln2Hi", 0.693359375), n, n)
	v.op("VADDPS", f, n, n)
	v.op("VMULPS", v.f32("minusTwo", -2), n, n)
	v.op("VSQRTPS", n, x)
}

// circle leaves the sine and cosine of the words in register y in 8 and 9.
func circle(v *vector, y int) {
	const w, t, z, p, sin, cos = 4, 5, 6, 7, 8, 9
	sign := v.u32("sign", 1<<31)
	v.note("the angle within a quarter turn")
	v.op("VPADDD", v.u32("eighth", 1<<29), y, w)
	v.logic("VPAND", v.u32("quarters", 3<<30), w, t)
	v.op("VPSUBD", t, y, t)
	v.op("VCVTDQ2PS", t, t)
	v.op("VMULPS", v.f32("turn", turn), t, t)
	v.op("VADDPS", v.f32("halfTurn", turn/2), t, t)
	v.op("VMULPS", t, t, z)
	v.note("its sine and cosine")
	v.horner("sin", z, p, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
	v.op("VMULPS", z, p, p)
	v.op("VMULPS", t, p, p)
	v.op("VADDPS", p, t, t)
	v.horner("cos", z, p, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
	v.op("VMULPS", z, p, p)
	v.op("VMULPS", z, p, p)
	v.op("VMULPS", v.f32("half", 0.5), z, z)
	v.op("VSUBPS", z, p, p)
	v.op("VADDPS", v.f32("one", 1), p, p)
	v.note("the quarter: bit 30 swaps them, bits 31 and 30 set their signs")
	v.bit30(w)
	v.choose(p, t, sin)
	v.choose(t, p, cos)
	v.op("VPSLLD", "$1", w, z)
	v.logic("VPXOR", w, z, z)
	v.logic("VPAND", sign, z, z)
	v.logic("VPXOR", z, cos, cos)
	v.logic("VPAND", sign, w, w)
	v.logic("VPXOR", w, sin, sin)
}

const turn = float32(2 * 3.14159265358979323846 / (1 << 32))

// horner evaluates a polynomial at x into p, products and sums rounded apart.
func (v *vector) horner(name string, x, p int, c ...float32) {
	v.op("VMULPS", v.f32(name+"0", c[0]), x, p)
	for i := 1; i < len(c); i++ {
		if i > 1 {
			v.op("VMULPS", x, p, p)
		}
		v.op("VADDPS", v.f32(fmt.Sprintf("%s%d", name, i), c[i]), p, p)
	}
}
