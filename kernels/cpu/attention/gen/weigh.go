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

// constants loads the polynomial of the arithmetic and what rounding needs. AX is lost.
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

// exponents writes what exp2 reads: the bias of an exponent, and the least argument whose power is not 0.
func (f *file) exponents() {
	f.words("bias", []int{127, 0, 127, 0})
	f.words("least", []int{0, 0xC2FC, 0, 0xC2FC}) // -126
}

// exp2 makes up to four registers their exp2. It changes 8 to 15, and K4 to K7. 2^n is made by n's bits as in ref,
// where VSCALEFPS would differ for arguments far above 0:
// what is left of a score of 2^100 when its rounded self is taken away.
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
