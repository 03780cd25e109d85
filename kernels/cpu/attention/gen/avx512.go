package main

// Registers of weigh: 0 to 7 four rows of 32 scores, 8 to 15 scratch, 16 and 17 the
// sums, 18 and 19 the maxima, 20 the factor c, 21 to 27 the polynomial, 28 to 31
// rounding.
const (
	sums, maxima, factor, poly, rounding = 16, 18, 20, 21, 28
)

// The coefficients of ref.Exp2 and ref.Exp2Short, from the highest power.
var (
	exp2Full  = []float32{0.000153533634, 0.0013398875, 0.00961843692, 0.0555033237, 0.240226477, 0.693147182, 1}
	exp2Short = []float32{0.013426702, 0.052242447, 0.24128021, 0.69304484, 1}
)

// tables is the order that interleaves the halves of a register.
func (f *file) tables() {
	var w []int
	for i := range 32 {
		w = append(w, i/2+i%2*16)
	}
	f.words("weave", w)
}

func coefficients(full bool) []float32 {
	if full {
		return exp2Full
	}
	return exp2Short
}

// constants loads the polynomial of the arithmetic and the constants of rounding. AX is lost.
func (f *file) constants(full bool) {
	for i, x := range coefficients(full) {
		f.splat(x, poly+i)
	}
	switch {
	case full:
	case f.bf16:
		f.op("VMOVDQU32 weave<>(SB), Z29")
	default:
		for i, x := range []string{"0xFFFF0000", "0x7FFF", "1", "0x400000"} {
			f.op("MOVL $%s, AX", x)
			f.op("VPBROADCASTD AX, Z%d", rounding+i)
		}
	}
}

// exponents writes exp2's constants: the bias of an exponent, and the least argument whose power is not 0.
func (f *file) exponents() {
	f.words("bias", []int{127, 0, 127, 0})
	f.words("least", []int{0, 0xC2FC, 0, 0xC2FC}) // -126
}

// exp2 makes up to four registers their exp2. It changes 8 to 15, and K4 to K7. 2^n is made by n's bits as in ref,
// where VSCALEFPS would differ for arguments far above 0: the rest of a score of 2^100 when its rounded self is taken
// away.
func (f *file) exp2(full bool, x ...int) {
	for i, x := range x {
		f.op("VCMPPS.BCST $5, least<>(SB), Z%d, K%d // not below", x, 4+i)
		if full {
			f.op("VREDUCEPS $8, Z%d, Z%d // to nearest", x, 8+i)
			f.op("VRNDSCALEPS $8, Z%d, Z%d", x, x)
		} else {
			// VREDUCEPS would round the difference in floor's direction too.
			f.op("VRNDSCALEPS $9, Z%d, Z%d // floor", x, 8+i)
			f.op("VSUBPS Z%d, Z%d, Z%d", 8+i, x, 8+i)
			f.op("VRNDSCALEPS $9, Z%d, Z%d", x, x)
		}
	}
	for c := 1; c < len(coefficients(full)); c++ {
		for i := range x {
			if c == 1 {
				f.op("VMOVAPS Z%d, Z%d", poly, 12+i)
			}
			f.op("VFMADD213PS Z%d, Z%d, Z%d", poly+c, 8+i, 12+i)
		}
	}
	for i, x := range x {
		f.op("VCVTPS2DQ Z%d, Z%d", x, x)
		f.op("VPADDD.BCST bias<>(SB), Z%d, Z%d", x, x)
		f.op("VPSLLD $23, Z%d, Z%d", x, x)
		f.op("VMULPS.Z Z%d, Z%d, K%d, Z%d", x, 12+i, 4+i, x)
	}
}

// weigh is the pass between the products of the forward.
func (f *file) weigh(name string, full bool) {
	f.fn(name, 8, "func "+name+"(w *weighing)\nweighing.run for 32 queries at once.")
	f.op("MOVQ w+0(FP), BX")
	f.constants(full)
	f.op("MOVQ weighing_s(BX), SI")
	f.op("MOVQ weighing_keys(BX), CX")
	f.op("MOVL $0xFF800000, AX")
	for i := range 4 {
		f.op("VPBROADCASTD AX, Z%d", i)
	}
	f.op("VPBROADCASTD AX, Z15")
	f.op("SUBQ $2, CX")
	f.op("JLT maxTail")
	f.label("max")
	for i := range 4 {
		f.op("VMAXPS %d(SI), Z%d, Z%d", i*64, i, i)
	}
	f.op("ADDQ $256, SI")
	f.op("SUBQ $2, CX")
	f.op("JGE max")
	f.label("maxTail")
	f.op("ADDQ $2, CX")
	f.op("JEQ maxDone")
	for i := range 2 {
		f.op("VMAXPS %d(SI), Z%d, Z%d", i*64, i, i)
	}
	f.label("maxDone")
	f.op("VBROADCASTSS weighing_c(BX), Z%d", factor)
	// m' in maxima, r in 6 and 7.
	for i := range 2 {
		f.op("VMAXPS Z%d, Z%d, Z%d", i+2, i, i)
		f.op("VMULPS Z%d, Z%d, Z%d", factor, i, i)
		f.op("VMOVUPS weighing_m+%d(BX), Z%d", i*64, 2+i)
		f.op("VMAXPS Z%d, Z%d, Z%d", 2+i, i, maxima+i)
		f.op("VSUBPS Z%d, Z%d, Z%d", maxima+i, 2+i, 4+i)
		f.op("VCMPPS $4, Z%d, Z%d, K%d", maxima+i, 2+i, 1+i)
		f.op("VMOVUPS Z%d, weighing_m+%d(BX)", maxima+i, i*64)
	}
	f.exp2(full, 4, 5)
	for i := range 2 {
		f.op("VMOVAPS Z%d, Z%d", poly+len(coefficients(full))-1, 6+i)
		f.op("VMOVAPS Z%d, K%d, Z%d", 4+i, 1+i, 6+i)
		f.op("VMULPS weighing_l+%d(BX), Z%d, Z%d", i*64, 6+i, sums+i)
		// Where no key is seen yet, 0 stands in m's place.
		f.op("MOVL $0xFF800000, AX")
		f.op("VPBROADCASTD AX, Z15")
		f.op("VCMPPS $4, Z15, Z%d, K3", maxima+i)
		f.op("VMOVAPS.Z Z%d, K3, Z%d", maxima+i, maxima+i)
	}
	f.op("KORTESTW K1, K2")
	f.op("JEQ weigh")
	f.op("MOVQ weighing_o(BX), DI")
	f.op("MOVQ weighing_dv(BX), CX")
	f.rescaleLoop()
	f.label("weigh")
	f.op("MOVQ weighing_s(BX), SI")
	f.op("MOVQ weighing_p(BX), DI")
	f.op("MOVQ weighing_keys(BX), CX")
	f.byFours(func(rows int) { f.weighRows(full, rows) }, "pad", "tailed", "ADDQ $512, SI", "ADDQ $256, DI")
	f.op("ADDQ $256, DI")
	f.label("pad")
	f.padPanel(full, "weighing_keys")
	for i := range 2 {
		f.op("VMOVUPS Z%d, weighing_l+%d(BX)", sums+i, i*64)
	}
	f.ret()
}

// byFours walks over CX rows: four at a time, with moves behind each four, and then the rest. It goes to empty where
// there is no rest, and to done, which it writes, behind one.
func (f *file) byFours(rows func(n int), empty, done string, moves ...string) {
	f.op("SUBQ $4, CX")
	f.op("JLT tail")
	f.label("four")
	rows(4)
	for _, m := range moves {
		f.op("%s", m)
	}
	f.op("SUBQ $4, CX")
	f.op("JGE four")
	f.label("tail")
	f.op("ADDQ $4, CX")
	f.op("JEQ %s", empty)
	f.op("CMPQ CX, $2")
	f.op("JEQ two")
	f.op("JGT three")
	for i, name := range []string{"one", "two", "three"} {
		f.label(name)
		rows(i + 1)
		if i < 2 {
			f.op("JMP %s", done)
		}
	}
	f.label(done)
}

// padPanel writes zeros to the panel at DI up to the end of a step of 32 keys.
func (f *file) padPanel(full bool, keys string) {
	if full {
		return
	}
	f.op("MOVQ %s(BX), CX", keys)
	f.op("ADDQ $3, CX")
	f.op("SHRQ $2, CX")
	f.op("NEGQ CX")
	f.op("ANDQ $7, CX")
	f.op("JEQ end")
	f.op("VPXORD Z0, Z0, Z0")
	f.label("zeros")
	for i := range 4 {
		f.op("VMOVDQU32 Z0, %d(DI)", i*64)
	}
	f.op("ADDQ $256, DI")
	f.op("DECQ CX")
	f.op("JNE zeros")
	f.label("end")
}

// weighRows makes P of up to four rows of scores.
func (f *file) weighRows(full bool, rows int) {
	for i := range 2 * rows {
		f.op("VMOVUPS %d(SI), Z%d", i*64, i)
		f.op("VFMSUB213PS Z%d, Z%d, Z%d", maxima+i%2, factor, i)
	}
	for i := 0; i < 2*rows; i += 4 {
		if rows*2-i == 2 {
			f.exp2(full, i, i+1)
		} else {
			f.exp2(full, i, i+1, i+2, i+3)
		}
	}
	for i := range 2 * rows {
		f.op("VADDPS Z%d, Z%d, Z%d", i, sums+i%2, sums+i%2)
		if full {
			f.op("VMOVUPS Z%d, %d(SI)", i, i*64)
		}
	}
	if full {
		return
	}
	for i := 2 * rows; i < 8; i++ {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.panelRows(2 * rows)
}

// panelRows writes four rows of fp32, in registers 0 to 7, as two rows of a paired
// panel at DI; those from used on are zeros.
func (f *file) panelRows(used int) {
	if !f.bf16 {
		for i := range used {
			f.round(i, 8+i%4)
		}
	}
	for chain := range 2 {
		for half := range 2 {
			lo, hi := 4+chain*2+half, chain*2+half
			f.pair(lo, hi, 8+half)
			f.op("VMOVDQU32 Z%d, %d(DI)", lo, chain*128+half*64)
		}
	}
}

// rescaleLoop multiplies CX rows at DI by registers 6 and 7.
func (f *file) rescaleLoop() {
	f.label("rescale")
	for i := range 2 {
		f.op("VMULPS %d(DI), Z%d, Z%d", i*64, 6+i, i)
		f.op("VMOVUPS Z%d, %d(DI)", i, i*64)
	}
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE rescale")
}

// Registers of grade are those of weigh, but 16 and 17 Delta, 18 and 19 -LSE, and the
// scale in 26 or 28; Z28 orders lines of bf16 where the path has them.

// tableOfPairs is the order in which a product takes the words of 16 bytes of A.
func (f *file) tableOfPairs() {
	f.words("pairs", []int{0x0504, 0x0100, 0x0706, 0x0302, 0x0d0c, 0x0908, 0x0f0e, 0x0b0a})
}

func scaleRegister(full bool) int {
	if full {
		return 28
	}
	return 26
}

// grade is the pass between the products of the backward.
func (f *file) grade(name string, full bool) {
	f.fn(name, 8, "func "+name+"(x *grading)\ngrading.run for 32 queries at once.")
	f.op("MOVQ x+0(FP), BX")
	f.constants(full)
	if f.bf16 {
		f.op("VBROADCASTI32X4 pairs<>(SB), Z28")
	}
	f.op("VBROADCASTSS grading_c(BX), Z%d", factor)
	f.op("VBROADCASTSS grading_scale(BX), Z%d", scaleRegister(full))
	for i := range 2 {
		f.op("VMOVUPS grading_delta+%d(BX), Z%d", i*64, sums+i)
		f.op("VMOVUPS grading_shift+%d(BX), Z%d", i*64, maxima+i)
	}
	f.op("MOVQ grading_s(BX), SI")
	f.op("MOVQ grading_g(BX), DX")
	f.op("MOVQ grading_panel(BX), DI")
	f.op("MOVQ grading_p(BX), R8")
	f.op("MOVQ grading_d(BX), R9")
	f.op("MOVQ grading_keys(BX), CX")
	f.byFours(func(rows int) { f.gradeRows(full, rows) }, "pad", "tailed",
		"ADDQ $512, SI", "ADDQ $512, DX", "ADDQ $256, DI", "ADDQ $256, R8", "ADDQ $256, R9")
	f.op("ADDQ $256, DI")
	f.label("pad")
	f.padPanel(full, "grading_keys")
	f.ret()
}

// gradeRows makes P and dS of up to four rows.
func (f *file) gradeRows(full bool, rows int) {
	for first := 0; first < 2*rows; first += 4 {
		var x []int
		for i := first; i < min(first+4, 2*rows); i++ {
			x = append(x, i)
			f.op("VMOVUPS %d(SI), Z%d", i*64, i)
			f.op("VFMADD213PS Z%d, Z%d, Z%d", maxima+i%2, factor, i)
		}
		f.exp2(full, x...)
		for _, i := range x {
			f.op("VMOVUPS %d(DX), Z%d", i*64, 8+i%4)
			f.op("VSUBPS Z%d, Z%d, Z%d", sums+i%2, 8+i%4, 8+i%4)
			f.op("VMULPS Z%d, Z%d, Z%d", 8+i%4, i, 8+i%4)
			f.op("VMULPS Z%d, Z%d, Z%d", scaleRegister(full), 8+i%4, 8+i%4)
		}
		f.lines(full, x, x[0], "R8", "SI")
		for _, i := range x {
			f.op("VMOVAPS Z%d, Z%d", 8+i%4, i)
		}
		f.lines(full, x, x[0], "R9", "DX")
	}
	if full {
		return
	}
	for i := 2 * rows; i < 8; i++ {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.panelRows(0)
}

// lines writes rows of A from registers x: lined to memory at line, or fp32 to memory
// at flat.
func (f *file) lines(full bool, x []int, first int, line, flat string) {
	for n, i := range x {
		if f.bf16 {
			if i%2 == 0 {
				f.cvt2bf16(i, i+1, 12+n/2)
				f.op("VPSHUFB Z28, Z%d, Z%d", 12+n/2, 12+n/2)
				f.op("VMOVDQU32 Z%d, %d(%s)", 12+n/2, i/2*64, line)
			}
			continue
		}
		if !full {
			f.round(i, 12+n)
			f.op("VPANDD Z28, Z%d, Z%d", i, i)
		}
		f.op("VMOVUPS Z%d, %d(%s)", i, i*64, flat)
	}
}

// dotRows are sums of products in the 64 lanes of ref.Dot.
func (f *file) dotRows(name string, float bool) {
	f.fn(name, 56, "func "+name+"(dst, x, y unsafe.Pointer, xStride, yStride, rows, d int)\ndst[r] = x row r · y row r.")
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ x+8(FP), SI")
	f.op("MOVQ y+16(FP), DX")
	f.op("MOVQ rows+40(FP), R10")
	f.op("MOVQ d+48(FP), R11")
	f.op("MOVQ R11, CX")
	f.op("ANDQ $63, CX")
	f.op("MOVQ $1, AX")
	f.op("SHLQ CX, AX")
	f.op("DECQ AX")
	for i := range 4 {
		f.op("KMOVW AX, K%d", 1+i)
		f.op("SHRQ $16, AX")
	}
	f.op("SHRQ $6, R11")
	load := func(i int, mask string) {
		for n, p := range []string{"R8", "R9"} {
			if float {
				f.op("VMOVUPS%s %d(%s), %sZ%d", zeroing(mask), i*64, p, mask, 8+4*n+i)
			} else {
				f.op("VPMOVZXWD%s %d(%s), %sZ%d", zeroing(mask), i*32, p, mask, 8+4*n+i)
				f.op("VPSLLD $16, Z%d, Z%d", 8+4*n+i, 8+4*n+i)
			}
		}
		f.op("VFMADD231PS Z%d, Z%d, %sZ%d", 8+i, 12+i, mask, i)
	}
	f.label("row")
	f.op("MOVQ SI, R8")
	f.op("MOVQ DX, R9")
	f.op("MOVQ R11, CX")
	for i := range 4 {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.op("TESTQ CX, CX")
	f.op("JEQ tail")
	f.label("step")
	for i := range 4 {
		load(i, "")
	}
	size := map[bool]int{false: 128, true: 256}[float]
	f.op("ADDQ $%d, R8", size)
	f.op("ADDQ $%d, R9", size)
	f.op("DECQ CX")
	f.op("JNE step")
	f.label("tail")
	for i := range 4 {
		load(i, "K"+string(rune('1'+i))+", ")
	}
	f.op("VADDPS Z1, Z0, Z0")
	f.op("VADDPS Z3, Z2, Z2")
	f.op("VADDPS Z2, Z0, Z0")
	f.op("VEXTRACTF64X4 $1, Z0, Y1")
	f.op("VADDPS Y1, Y0, Y0")
	f.endRow()
}

// endRow writes the sum of Y0's lanes, by halves, and goes on with the next row.
func (f *file) endRow() {
	f.op("VEXTRACTF128 $1, Y0, X1")
	f.op("VADDPS X1, X0, X0")
	f.op("VMOVHLPS X0, X0, X1")
	f.op("VADDPS X1, X0, X0")
	f.op("VMOVSHDUP X0, X1")
	f.op("VADDSS X1, X0, X0")
	f.op("VMOVSS X0, (DI)")
	f.op("ADDQ $4, DI")
	f.op("ADDQ xStride+24(FP), SI")
	f.op("ADDQ yStride+32(FP), DX")
	f.op("DECQ R10")
	f.op("JNE row")
	f.ret()
}

func zeroing(mask string) string {
	if mask == "" {
		return ""
	}
	return ".Z"
}

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
	f.op("VPTERNLOGD $0xFF, Z18, Z18, Z18 // NaN")
	f.op("VPXORD Z1, Z1, Z1")
	for i := range 2 {
		f.op("VADDPS Z%d, Z%d, Z%d", x+i, p+i, p+i)
		f.op("VFMADD231PS Z%d, Z%d, Z%d", c, n+i, p+i)
		f.op("VCMPPS $5, Z16, Z%d, K3 // infinite, or no number", 2+i)
		f.op("VMOVAPS Z%d, K3, Z%d", 2+i, p+i)
		f.op("VCMPPS $1, Z1, Z%d, K3 // below 0: powers of the rests of scores beyond 2^30", 2+i)
		f.op("VMOVAPS Z18, K3, Z%d", p+i)
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

// rope turns the heads of one token: registers 0 and 1 a pair's elements, 4 and 5
// products, 6 and 7 cosines and sines, 28 the sign, 29 to 31 rounding.
func (f *file) rope(name string, halves, float bool) {
	f.fn(name, 8, "func "+name+"(t *turning)\nRope of the heads of one token.")
	f.op("MOVQ t+0(FP), BX")
	f.op("VPBROADCASTD turning_sign(BX), Z28")
	for i, x := range []string{"0x7FFF", "1", "0x400000"} {
		f.op("MOVL $%s, AX", x)
		f.op("VPBROADCASTD AX, Z%d", 29+i)
	}
	f.op("MOVQ turning_x(BX), SI")
	f.op("MOVQ turning_y(BX), DI")
	f.op("MOVQ turning_heads(BX), DX")
	step := 8 // pairs
	if halves {
		step = 16
	} else {
		f.op("VMOVDQU32 twice<>(SB), Z27")
	}
	size := map[bool]int{false: 2, true: 4}[float]
	f.label("head")
	f.op("MOVQ SI, R8")
	f.op("MOVQ DI, R9")
	f.op("MOVQ turning_cos(BX), R10")
	f.op("MOVQ turning_sin(BX), R11")
	f.op("MOVQ turning_pairs(BX), R12")
	f.op("MOVQ R12, R13")
	f.op("IMUL3Q $%d, R13, R13 // bytes to the other half", size)
	f.label("step")
	f.op("MOVQ $%d, CX", step)
	f.op("CMPQ R12, CX")
	f.op("CMOVQLT R12, CX")
	f.op("MOVL $1, AX")
	f.op("SHLL CX, AX")
	f.op("DECL AX")
	f.op("KMOVW AX, K2")
	if halves {
		f.op("KMOVW AX, K1")
	} else {
		f.op("ADDQ CX, CX")
		f.op("MOVL $1, AX")
		f.op("SHLL CX, AX")
		f.op("DECL AX")
		f.op("KMOVW AX, K1")
	}
	load := func(at string, z int) {
		if float {
			f.op("VMOVUPS.Z %s, K1, Z%d", at, z)
			return
		}
		f.op("VPMOVZXWD.Z %s, K1, Z%d", at, z)
		f.op("VPSLLD $16, Z%d, Z%d", z, z)
	}
	store := func(z int, at string) {
		if float {
			f.op("VMOVUPS Z%d, K1, %s", z, at)
			return
		}
		f.round(z, 8)
		f.op("VPSRLD $16, Z%d, Z%d", z, z)
		f.op("VPMOVDW Z%d, K1, %s", z, at)
	}
	f.op("VMOVUPS.Z (R10), K2, Z6")
	f.op("VMOVUPS.Z (R11), K2, Z7")
	f.op("VPXORD Z28, Z7, Z7")
	load("(R8)", 0)
	if halves {
		load("(R8)(R13*1)", 1)
		f.op("VMULPS Z7, Z1, Z4")
		f.op("VMULPS Z7, Z0, Z5")
		f.op("VFMSUB213PS Z4, Z6, Z0")
		f.op("VFMADD213PS Z5, Z6, Z1")
		store(0, "(R9)")
		store(1, "(R9)(R13*1)")
	} else {
		f.op("VPERMPS Z6, Z27, Z6")
		f.op("VPERMPS Z7, Z27, Z7")
		f.op("VPERMILPS $0xB1, Z0, Z4")
		f.op("VMULPS Z7, Z4, Z4")
		f.op("VFMADDSUB213PS Z4, Z6, Z0")
		store(0, "(R9)")
	}
	f.op("ADDQ $%d, R8", 16*size)
	f.op("ADDQ $%d, R9", 16*size)
	f.op("ADDQ $%d, R10", 4*step)
	f.op("ADDQ $%d, R11", 4*step)
	f.op("SUBQ $%d, R12", step)
	f.op("JGT step")
	f.op("ADDQ turning_xStride(BX), SI")
	f.op("ADDQ turning_yStride(BX), DI")
	f.op("DECQ DX")
	f.op("JNE head")
	f.ret()
}

func ropeFile() *file {
	f := newFile(false)
	var w []int
	for i := range 16 {
		w = append(w, i/2, 0)
	}
	f.words("twice", w)
	f.rope("ropeInterleavedF32", false, true)
	f.rope("ropeInterleavedBF16", false, false)
	f.rope("ropeHalvesF32", true, true)
	f.rope("ropeHalvesBF16", true, false)
	return f
}
