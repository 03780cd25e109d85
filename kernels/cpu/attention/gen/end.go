package main

// end is weighing.end: 1/l times O, and LSE, by ref.Log's operations.
func (f *file) end() {
	f.fn("end512", 16, "func end512(w *weighing, rows int)\nweighing.end for 32 queries at once.")
	f.op("MOVQ w+0(FP), BX")
	const one, lse = 20, 21
	f.splat(1, one)
	for i := range 2 {
		f.op("VMOVUPS weighing_l+%d(BX), Z%d", i*64, 2+i)
		f.op("VDIVPS Z%d, Z%d, Z%d", 2+i, one, 6+i)
		f.op("VPXORD Z1, Z1, Z1")
		f.op("VCMPPS $4, Z1, Z%d, K%d // l is not 0", 2+i, 1+i)
	}
	logs := []float32{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	const root, n, x, z, p, c = 22, 8, 10, 12, 14, 23
	f.op("MOVL $0x3F3504F3, AX")
	f.op("VPBROADCASTD AX, Z%d", root)
	for i := range 2 {
		f.op("VPSUBD Z%d, Z%d, Z%d", root, 2+i, n+i)
		f.op("VPSRAD $23, Z%d, Z%d", n+i, n+i)
		f.op("VPSLLD $23, Z%d, Z%d", n+i, x+i)
		f.op("VPSUBD Z%d, Z%d, Z%d", x+i, 2+i, x+i)
		f.op("VSUBPS Z%d, Z%d, Z%d", one, x+i, x+i)
		f.op("VCVTDQ2PS Z%d, Z%d", n+i, n+i)
		f.op("VMULPS Z%d, Z%d, Z%d", x+i, x+i, z+i)
	}
	for k, v := range logs {
		f.splat(v, c)
		for i := range 2 {
			if k == 0 {
				f.op("VMOVAPS Z%d, Z%d", c, p+i)
			} else {
				f.op("VFMADD213PS Z%d, Z%d, Z%d", c, x+i, p+i)
			}
		}
	}
	for i := range 2 {
		f.op("VMULPS Z%d, Z%d, Z%d", x+i, p+i, p+i)
		f.op("VMULPS Z%d, Z%d, Z%d", z+i, p+i, p+i)
	}
	for _, s := range []struct {
		by float32
		of int
	}{{-2.12194440e-4, n}, {-0.5, z}} {
		f.splat(s.by, c)
		for i := range 2 {
			f.op("VFMADD231PS Z%d, Z%d, Z%d", c, s.of+i, p+i)
		}
	}
	f.splat(0.693359375, c)
	f.splat(1.44269504088896341, root)
	f.op("MOVL $0x7F800000, AX")
	f.op("VPBROADCASTD AX, Z16")
	f.op("MOVL $0xFF800000, AX")
	f.op("VPBROADCASTD AX, Z17")
	for i := range 2 {
		f.op("VADDPS Z%d, Z%d, Z%d", x+i, p+i, p+i)
		f.op("VFMADD231PS Z%d, Z%d, Z%d", c, n+i, p+i)
		f.op("VCMPPS $5, Z16, Z%d, K3 // infinite, or no number", 2+i)
		f.op("VMOVAPS Z%d, K3, Z%d", 2+i, p+i)
		f.op("VFMADD213PS weighing_m+%d(BX), Z%d, Z%d", i*64, root, p+i)
		f.op("VMOVAPS Z17, Z%d", lse)
		f.op("VMOVAPS Z%d, K%d, Z%d", p+i, 1+i, lse)
		f.op("VMOVUPS Z%d, weighing_lse+%d(BX)", lse, i*64)
	}
	f.op("MOVQ weighing_o(BX), DI")
	f.op("MOVQ rows+8(FP), CX")
	f.label("rescale")
	for i := range 2 {
		f.op("VMULPS.Z %d(DI), Z%d, K%d, Z%d", i*64, 6+i, 1+i, i)
		f.op("VMOVUPS Z%d, %d(DI)", i, i*64)
	}
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE rescale")
	f.ret()
}
