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
	return append(append(out, formulas()...), groupNorm()...)
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
		// AdamW: the moments, and what they make of p. Numbers: GradScale, 1-Beta1,
		// 1-Beta2, Beta2, RootScale, Eps, Step, 1 - Rate·Decay.
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
