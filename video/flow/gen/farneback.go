package main

import "fmt"

// kind is the type of a filter's input and output.
type kind struct {
	bits     string // PS or PD
	from, to int    // bytes of a number
}

var (
	single  = kind{"PS", 4, 4}
	widened = kind{"PD", 4, 8}
	double  = kind{"PD", 8, 8}
)

// vectors is how many registers hold a block of 16.
func (k kind) vectors() int { return 16 * k.to / 32 }

func (k kind) broadcast() string { return "VBROADCASTS" + k.bits[1:] }

// load reads vector j of a row, widening where needed.
func (e *emitter) load(k kind, j int, base, to string) {
	if k.from == k.to {
		e.op("VMOVU"+k.bits, fmt.Sprintf("%d(%s)(CX*%d)", 32*j, base, k.from), to)
	} else {
		e.op("VCVTPS2PD", fmt.Sprintf("%d(%s)(CX*%d)", 16*j, base, k.from), to)
	}
}

// filter is symmetric, window and across; three is expand, which has sums of three kinds.
//
// CX counts numbers, R9 is the middle row's slice, R10 and R11 go outwards from it, R12 goes
// through the weights.
func (e *emitter) filter(name string, three bool, k kind) {
	dst := "dst *" + map[int]string{4: "float32", 8: "float64"}[k.to]
	sums := 1
	if three {
		dst, sums = "dst *[]float32", 3
	}
	e.text(name, fmt.Sprintf("%s, rows *[]float%d, weights *float%d, radius, n int", dst, 8*k.from, 8*k.to), 40)
	for i, r := range []string{"DI", "R9", "BX", "DX", "R8"} {
		e.op("MOVQ", []string{"dst", "rows", "weights", "radius", "n"}[i]+fmt.Sprintf("+%d(FP)", 8*i), r)
	}
	e.op("LEAQ", "(DX)(DX*2)", "AX")
	e.op("LEAQ", "(R9)(AX*8)", "R9")
	e.op("XORQ", "CX", "CX")
	e.label("loop")
	e.op("MOVQ", "(R9)", "AX")
	n := k.vectors()
	acc := func(s, j int) string { return y(s*n + j) }
	for s := range sums {
		if s == 1 {
			for j := range n {
				e.op("VXORPS", acc(s, j), acc(s, j), acc(s, j))
			}
			continue
		}
		e.op(k.broadcast(), fmt.Sprintf("%d(BX)", s*k.to), "Y15")
		for j := range n {
			e.load(k, j, "AX", "Y14")
			e.op("VMUL"+k.bits, "Y14", "Y15", acc(s, j))
		}
	}
	e.op("MOVQ", "R9", "R10")
	e.op("MOVQ", "R9", "R11")
	e.op("MOVQ", "BX", "R12")
	e.op("MOVQ", "DX", "SI")
	e.op("TESTQ", "SI", "SI")
	e.op("JEQ", "store")
	e.label("pair")
	e.op("SUBQ", "$24", "R10")
	e.op("ADDQ", "$24", "R11")
	e.op("ADDQ", fmt.Sprintf("$%d", sums*k.to), "R12")
	e.op("MOVQ", "(R10)", "AX")
	e.op("MOVQ", "(R11)", "R13")
	for s := range sums {
		e.op(k.broadcast(), fmt.Sprintf("%d(R12)", s*k.to), y(15-s))
	}
	for j := range n {
		e.load(k, j, "AX", "Y10")
		e.load(k, j, "R13", "Y11")
		e.op("VADD"+k.bits, "Y11", "Y10", "Y12")
		if three {
			e.op("VSUB"+k.bits, "Y10", "Y11", "Y10") // after - before
		}
		for s := range sums {
			from := "Y12"
			if s == 1 {
				from = "Y10"
			}
			e.op("VMUL"+k.bits, from, y(15-s), "Y11")
			e.op("VADD"+k.bits, "Y11", acc(s, j), acc(s, j))
		}
	}
	e.op("DECQ", "SI")
	e.op("JNE", "pair")
	e.label("store")
	for s := range sums {
		base := "DI"
		if three {
			base = "AX"
			e.op("MOVQ", fmt.Sprintf("%d(DI)", 24*s), base)
		}
		for j := range n {
			e.op("VMOVU"+k.bits, acc(s, j), fmt.Sprintf("%d(%s)(CX*%d)", 32*j, base, k.to))
		}
	}
	e.op("ADDQ", "$16", "CX")
	e.op("CMPQ", "CX", "R8")
	e.op("JLT", "loop")
	e.end()
}

// equations is one row of Farneback's normal equations, eight pixels at a time. The second
// frame's expansion is gathered where the flow leads; lanes that leave it are masked, and read
// nothing.
func (e *emitter) equations() {
	e.text("equationsAVX2", "e *equations", 8)
	slice := func(field string, i int) string { return fmt.Sprintf("equations_%s+%d(BX)", field, 24*i) }
	row := func(field string, i int, to string) { // of the row, at CX
		e.op("MOVQ", slice(field, i), "AX")
		e.op("VMOVUPS", "(AX)(CX*4)", to)
	}
	e.op("MOVQ", "e+0(FP)", "BX")
	e.op("MOVQ", "equations_x+8(BX)", "DX") // its length
	e.op("MOVQ", "equations_stride(BX)", "SI")
	e.op("XORQ", "CX", "CX")
	e.op("VMOVUPS", e.steps(), "Y15") // x of the lanes
	e.label("loop")
	row("x", 0, "Y0")
	row("y", 0, "Y1")
	e.op("VADDPS", "Y0", "Y15", "Y2")
	e.op("VBROADCASTSS", "equations_row(BX)", "Y3")
	e.op("VADDPS", "Y1", "Y3", "Y3")
	e.op("VROUNDPS", "$9", "Y2", "Y4")
	e.op("VROUNDPS", "$9", "Y3", "Y5")
	e.op("VXORPS", "Y7", "Y7", "Y7")
	e.op("VCMPPS", "$0x1d", "Y7", "Y4", "Y6") // x >= 0
	e.op("VCMPPS", "$0x1d", "Y7", "Y5", "Y8")
	e.op("VANDPS", "Y8", "Y6", "Y6")
	for i, side := range []string{"width", "height"} {
		e.op("VBROADCASTSS", "equations_"+side+"(BX)", "Y7")
		e.op("VCMPPS", "$0x11", "Y7", y(4+i), "Y8") // x < width
		e.op("VANDPS", "Y8", "Y6", "Y6")
	}
	e.op("VSUBPS", "Y4", "Y2", "Y2")
	e.op("VSUBPS", "Y5", "Y3", "Y3")
	e.op("VCVTTPS2DQ", "Y4", "Y4")
	e.op("VCVTTPS2DQ", "Y5", "Y5")
	e.op("VPBROADCASTD", "equations_stride(BX)", "Y7")
	e.op("VPMULLD", "Y7", "Y5", "Y5")
	e.op("VPADDD", "Y4", "Y5", "Y5")
	e.op("VBROADCASTSS", e.f32("one", 0x3f800000), "Y13")
	e.op("VSUBPS", "Y2", "Y13", "Y7")
	e.op("VSUBPS", "Y3", "Y13", "Y8")
	e.op("VMULPS", "Y8", "Y7", "Y9")
	e.op("VMULPS", "Y8", "Y2", "Y10")
	e.op("VMULPS", "Y3", "Y7", "Y11")
	e.op("VMULPS", "Y3", "Y2", "Y12")
	sums := []string{"Y2", "Y3", "Y4", "Y7", "Y8"}
	for k, s := range sums {
		e.op("MOVQ", slice("b", k), "AX")
		for corner := range 4 {
			e.op("VXORPS", "Y13", "Y13", "Y13")
			e.op("VMOVAPS", "Y6", "Y14") // a gather clears its mask
			e.op("VGATHERDPS", "Y14", fmt.Sprintf("%d(AX)(Y5*4)", 4*(corner%2)), "Y13")
			if corner == 0 {
				e.op("VMULPS", "Y9", "Y13", s)
			} else {
				e.op("VMULPS", y(9+corner), "Y13", "Y13")
				e.op("VADDPS", "Y13", s, s)
			}
			if corner == 1 {
				e.op("LEAQ", "(AX)(SI*4)", "AX")
			}
		}
	}
	e.op("VANDPS", "Y6", "Y2", "Y2")
	e.op("VANDPS", "Y6", "Y3", "Y3")
	e.op("VBROADCASTSS", e.f32("half", 0x3f000000), "Y13")
	e.op("VBROADCASTSS", e.f32("quarter", 0x3e800000), "Y14")
	for i, s := range sums[2:] { // yy, xx, xy
		row("a", 2+i, "Y9")
		e.op("VADDPS", s, "Y9", s)
		if i < 2 {
			e.op("VMULPS", "Y13", s, s)
		} else {
			e.op("VMULPS", "Y14", s, s)
			e.op("VMULPS", "Y13", "Y9", "Y9")
		}
		e.op("VBLENDVPS", "Y6", s, "Y9", s)
	}
	for i, s := range sums[:2] { // y, x
		row("a", i, "Y9")
		e.op("VSUBPS", s, "Y9", s)
		e.op("VMULPS", "Y13", s, s)
	}
	add := func(a, b, to string) {
		e.op("VMULPS", a, b, "Y9")
		e.op("VADDPS", "Y9", to, to)
	}
	add("Y4", "Y1", "Y2")
	add("Y8", "Y0", "Y2")
	add("Y8", "Y1", "Y3")
	add("Y7", "Y0", "Y3")
	row("edge", 0, "Y9")
	for _, s := range sums {
		e.op("VMULPS", "Y9", s, s)
	}
	store := func(i int, from string) {
		e.op("MOVQ", slice("out", i), "AX")
		e.op("VMOVUPS", from, "(AX)(CX*4)")
	}
	e.op("VMULPS", "Y8", "Y8", "Y10") // xy xy
	e.op("VMULPS", "Y4", "Y4", "Y9")
	e.op("VADDPS", "Y10", "Y9", "Y9")
	store(0, "Y9")
	e.op("VADDPS", "Y7", "Y4", "Y9")
	e.op("VMULPS", "Y8", "Y9", "Y9")
	store(1, "Y9")
	e.op("VMULPS", "Y7", "Y7", "Y9")
	e.op("VADDPS", "Y10", "Y9", "Y9")
	store(2, "Y9")
	e.op("VMULPS", "Y2", "Y4", "Y9")
	e.op("VMULPS", "Y3", "Y8", "Y10")
	e.op("VADDPS", "Y10", "Y9", "Y9")
	store(3, "Y9")
	e.op("VMULPS", "Y2", "Y8", "Y9")
	e.op("VMULPS", "Y3", "Y7", "Y10")
	e.op("VADDPS", "Y10", "Y9", "Y9")
	store(4, "Y9")
	e.op("VBROADCASTSS", e.f32("eight", 0x41000000), "Y9")
	e.op("VADDPS", "Y9", "Y15", "Y15")
	e.op("ADDQ", "$8", "CX")
	e.op("CMPQ", "CX", "DX")
	e.op("JLT", "loop")
	e.end()
}

// solve finds the flow of a row from its averaged equations, four pixels at a time.
func (e *emitter) solve() {
	e.text("solveAVX2", "x, y *float32, sums *[]float64, n int", 32)
	for i, r := range []string{"DI", "SI", "BX", "DX"} {
		e.op("MOVQ", []string{"x", "y", "sums", "n"}[i]+fmt.Sprintf("+%d(FP)", 8*i), r)
	}
	for i, r := range []string{"R8", "R9", "R10", "R11", "R12"} {
		e.op("MOVQ", fmt.Sprintf("%d(BX)", 24*i), r)
	}
	e.op("VBROADCASTSD", e.f64("thousandth", 0x3f50624dd2f1a9fc), "Y14")
	e.op("VBROADCASTSD", e.f64("one64", 0x3ff0000000000000), "Y15")
	e.op("XORQ", "CX", "CX")
	e.label("loop")
	for i, r := range []string{"R8", "R9", "R10", "R11", "R12"} {
		e.op("VMOVUPD", "("+r+")(CX*8)", y(i))
	}
	// minus computes ab - cd.
	minus := func(a, b, c, d, to string) {
		e.op("VMULPD", a, b, to)
		e.op("VMULPD", c, d, "Y8")
		e.op("VSUBPD", "Y8", to, to)
	}
	minus("Y0", "Y2", "Y1", "Y1", "Y5")
	e.op("VADDPD", "Y14", "Y5", "Y5")
	e.op("VDIVPD", "Y5", "Y15", "Y5")
	minus("Y0", "Y4", "Y1", "Y3", "Y6")
	minus("Y2", "Y3", "Y1", "Y4", "Y7")
	for i, r := range []string{"DI", "SI"} {
		e.op("VMULPD", "Y5", y(6+i), y(6+i))
		e.op("VCVTPD2PSY", y(6+i), x(6+i))
		e.op("VMOVUPS", x(6+i), "("+r+")(CX*4)")
	}
	e.op("ADDQ", "$4", "CX")
	e.op("CMPQ", "CX", "DX")
	e.op("JLT", "loop")
	e.end()
}
