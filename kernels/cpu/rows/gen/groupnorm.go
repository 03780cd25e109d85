package main

// groupNorm is what runs over rows of pixels with numbers for each channel. What writes a
// result has a twin, next to it, that writes past the caches.
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
