package main

import (
	"fmt"
	"math"
)

// Registers of path AVX2, for eight queries at a time: 0 to 3 four rows of scores, 4 to 11 scratch, 12 and 13 the sums
// and maxima of weigh or -LSE and Delta of grade, 14 the factor c, 15 the scale. Constants are operands in memory
//: sixteen registers do not hold them.

// weigh2 is the pass between the products of the forward.
func (f *file) weigh2(name string, full bool) {
	f.fn(name, 8, "func "+name+"(w *weighing)\nweighing.run for 8 queries at once.")
	f.op("MOVQ w+0(FP), BX")
	f.op("MOVQ weighing_s(BX), SI")
	f.op("MOVQ weighing_keys(BX), CX")
	for i := range 4 {
		f.op("VMOVUPS infinite<>(SB), Y%d", 8+i)
	}
	f.label("max")
	for i := range 4 {
		f.op("VMOVUPS %d(SI), Y%d", i*32, i)
		f.op("VMAXPS Y%d, Y%d, Y%d", 8+i, i, 8+i)
	}
	f.op("ADDQ $128, SI")
	f.op("DECQ CX")
	f.op("JNE max")
	f.op("VBROADCASTSS weighing_c(BX), Y14")
	f.op("VXORPS Y13, Y13, Y13 // queries whose maximum changes")
	for i := range 4 {
		f.op("VMOVUPS weighing_m+%d(BX), Y%d", i*32, i)
		f.op("VMULPS Y14, Y%d, Y%d", 8+i, 4)
		f.op("VMAXPS Y%d, Y4, Y12", i)
		f.op("VMOVUPS Y12, weighing_m+%d(BX)", i*32)
		f.op("VCMPPS $4, Y12, Y%d, Y4", i)
		f.op("VORPS Y4, Y13, Y13")
		f.op("VMOVUPS Y4, weighing_lse+%d(BX) // end alone reads it, and writes it first", i*32)
		f.op("VSUBPS Y12, Y%d, Y%d", i, i)
	}
	f.exp2AVX(full, 4)
	for i := range 4 {
		f.op("VMOVUPS weighing_lse+%d(BX), Y4", i*32)
		f.op("VMOVUPS one<>(SB), Y5")
		f.op("VBLENDVPS Y4, Y%d, Y5, Y%d", i, i)
		f.op("VMOVUPS Y%d, weighing_r+%d(BX)", i, i*32)
		f.op("VMULPS weighing_l+%d(BX), Y%d, Y4", i*32, i)
		f.op("VMOVUPS Y4, weighing_l+%d(BX)", i*32)
	}
	f.op("VMOVMSKPS Y13, AX")
	f.op("TESTL AX, AX")
	f.op("JEQ weigh")
	f.op("MOVQ weighing_o(BX), DI")
	f.op("MOVQ weighing_dv(BX), CX")
	f.label("rescale")
	for i := range 4 {
		f.op("VMULPS %d(DI), Y%d, Y%d", i*32, i, 4+i)
		f.op("VMOVUPS Y%d, %d(DI)", 4+i, i*32)
	}
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE rescale")
	f.label("weigh")
	f.columns2("weighing", full, func() {
		f.op("VMOVUPS weighing_l(BX)(R10*1), Y12")
		f.op("VMOVUPS weighing_m(BX)(R10*1), Y13")
		f.op("VCMPPS $4, infinite<>(SB), Y13, Y0 // where no key is seen yet, 0 stands in m's place")
		f.op("VANDPS Y0, Y13, Y13")
	}, func(rows int) {
		for i := range rows {
			f.op("VMOVUPS %d(SI), Y%d", i*128, i)
			f.op("VFMSUB213PS Y13, Y14, Y%d", i)
		}
		f.exp2AVX(full, rows)
		for i := range rows {
			f.op("VADDPS Y%d, Y12, Y12", i)
			if full {
				f.op("VMOVUPS Y%d, %d(SI)", i, i*128)
			} else {
				f.round2(i)
			}
		}
		f.panel2(full, rows)
	}, func() { f.op("VMOVUPS Y12, weighing_l(BX)(R10*1)") })
	f.ret()
}

// grade2 is the pass between the products of the backward.
func (f *file) grade2(name string, full bool) {
	f.fn(name, 8, "func "+name+"(x *grading)\ngrading.run for 8 queries at once.")
	f.op("MOVQ x+0(FP), BX")
	f.op("VBROADCASTSS grading_c(BX), Y14")
	f.op("VBROADCASTSS grading_scale(BX), Y15")
	f.columns2("grading", full, func() {
		f.op("VMOVUPS grading_shift(BX)(R10*1), Y12")
		f.op("VMOVUPS grading_delta(BX)(R10*1), Y13")
		f.op("MOVQ grading_g(BX), DX")
		f.op("ADDQ R10, DX")
	}, func(rows int) {
		for i := range rows {
			f.op("VMOVUPS %d(SI), Y%d", i*128, i)
			f.op("VFMADD213PS Y12, Y14, Y%d", i)
		}
		f.exp2AVX(full, rows)
		for i := range rows {
			f.op("VMOVUPS %d(DX), Y4", i*128)
			f.op("VSUBPS Y13, Y4, Y4")
			f.op("VMULPS Y4, Y%d, Y4", i)
			f.op("VMULPS Y15, Y4, Y%d", 8+i)
		}
		for i := range rows { // P, then dS in its place
			for _, at := range []string{"SI", "DX"} {
				if !full {
					f.round2(i)
					f.op("VANDPS upper<>(SB), Y%d, Y%d", i, i)
				}
				f.op("VMOVUPS Y%d, %d(%s)", i, i*128, at)
				if at == "SI" {
					f.op("VMOVAPS Y%d, Y%d", 8+i, i)
				}
			}
		}
		f.panel2(full, rows)
		f.op("ADDQ $512, DX")
	}, func() {})
	f.ret()
}

// columns2 walks over a block of scores by columns of eight queries and rows of four, with SI at the scores, DI at the
// panel and R10 at the column's byte; then it fills the panel up to a step of 32 keys.
func (f *file) columns2(kind string, full bool, start func(), rows func(n int), end func()) {
	panel := map[string]string{"weighing": "weighing_p", "grading": "grading_panel"}[kind]
	f.op("XORQ R10, R10")
	f.label("column")
	f.op("MOVQ %s_s(BX), SI", kind)
	f.op("MOVQ %s(BX), DI", panel)
	f.op("MOVQ %s_keys(BX), CX", kind)
	f.op("ADDQ R10, SI")
	f.op("ADDQ R10, DI")
	start()
	f.byFours(rows, "columned", "columned", "ADDQ $512, SI", "ADDQ $256, DI")
	end()
	f.op("ADDQ $32, R10")
	f.op("CMPQ R10, $128")
	f.op("JNE column")
	if full {
		return
	}
	f.op("MOVQ %s_keys(BX), CX", kind)
	f.op("ADDQ $3, CX")
	f.op("SHRQ $2, CX")
	f.op("MOVQ CX, DI")
	f.op("SHLQ $8, DI")
	f.op("ADDQ %s(BX), DI", panel)
	f.op("NEGQ CX")
	f.op("ANDQ $7, CX")
	f.op("JEQ end")
	f.op("VXORPS Y0, Y0, Y0")
	f.label("zeros")
	for i := range 8 {
		f.op("VMOVUPS Y0, %d(DI)", i*32)
	}
	f.op("ADDQ $256, DI")
	f.op("DECQ CX")
	f.op("JNE zeros")
	f.label("end")
}

// scale2 multiplies O with r, and clears the queries that no key was seen by.
func (f *file) scale2() {
	f.fn("scaleAVX2", 32, "func scaleAVX2(o, r, keep unsafe.Pointer, rows int)\no = o·r & keep over rows of 32.")
	f.op("MOVQ o+0(FP), DI")
	f.op("MOVQ r+8(FP), SI")
	f.op("MOVQ keep+16(FP), DX")
	f.op("MOVQ rows+24(FP), CX")
	for i := range 4 {
		f.op("VMOVUPS %d(SI), Y%d", i*32, i)
		f.op("VMOVUPS %d(DX), Y%d", i*32, 4+i)
	}
	f.label("row")
	for i := range 4 {
		f.op("VMULPS %d(DI), Y%d, Y%d", i*32, i, 8+i)
		f.op("VANDPS Y%d, Y%d, Y%d", 4+i, 8+i, 8+i)
		f.op("VMOVUPS Y%d, %d(DI)", 8+i, i*32)
	}
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// dotRows2 are sums of products in the 64 lanes of ref.Dot, of rows of whole eights.
func (f *file) dotRows2(name string, float bool) {
	f.fn(name, 56, "func "+name+
		"(dst, x, y unsafe.Pointer, xStride, yStride, rows, eights int)\ndst[r] = x row r · y row r.")
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ x+8(FP), SI")
	f.op("MOVQ y+16(FP), DX")
	f.op("MOVQ rows+40(FP), R10")
	f.label("row")
	f.op("MOVQ SI, R8")
	f.op("MOVQ DX, R9")
	f.op("MOVQ eights+48(FP), CX")
	for i := range 8 {
		f.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	size := map[bool]int{false: 16, true: 32}[float]
	f.label("step")
	for i := range 8 {
		if float {
			f.op("VMOVUPS (R8), Y8")
			f.op("VFMADD231PS (R9), Y8, Y%d", i)
		} else {
			for n, p := range []string{"R8", "R9"} {
				f.op("VPMOVZXWD (%s), Y%d", p, 8+n)
				f.op("VPSLLD $16, Y%d, Y%d", 8+n, 8+n)
			}
			f.op("VFMADD231PS Y9, Y8, Y%d", i)
		}
		f.op("ADDQ $%d, R8", size)
		f.op("ADDQ $%d, R9", size)
		f.op("DECQ CX")
		f.op("JEQ sum")
	}
	f.op("JMP step")
	f.label("sum")
	for _, s := range [][2]int{{0, 2}, {4, 6}, {1, 3}, {5, 7}, {0, 4}, {1, 5}, {0, 1}} {
		f.op("VADDPS Y%d, Y%d, Y%d", s[1], s[0], s[0])
	}
	f.endRow()
}

func avx2File() *file {
	f := newFile(false)
	f.tables2()
	f.weigh2("weighF32AVX2", true)
	f.weigh2("weighBF16AVX2", false)
	f.grade2("gradeF32AVX2", true)
	f.grade2("gradeBF16AVX2", false)
	f.scale2()
	f.dotRows2("dotRowsF32AVX2", true)
	f.dotRows2("dotRowsBF16AVX2", false)
	f.rope2("ropeInterleavedF32AVX2", false, true)
	f.rope2("ropeInterleavedBF16AVX2", false, false)
	f.rope2("ropeHalvesF32AVX2", true, true)
	f.rope2("ropeHalvesBF16AVX2", true, false)
	return f
}

// Parts of the passes of path AVX2: constants, powers of two, roundings, and rows of a paired panel.

// Numbers of path AVX2 by name, each eight times.
var numbers2 = []struct {
	name string
	bits uint32
}{
	{"infinite", 0xFF800000}, {"least", math.Float32bits(-126)}, {"one", math.Float32bits(1)}, {"bias", 127},
	{"odd", 1}, {"half", 0x7FFF}, {"quiet", 0x400000}, {"upper", 0xFFFF0000},
}

// tables2 writes the numbers and both polynomials.
func (f *file) tables2() {
	eight := func(name string, bits ...uint32) {
		for i, b := range bits {
			for j := range 4 {
				fmt.Fprintf(f, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", name, i*32+j*8, b, b)
			}
		}
		fmt.Fprintf(f, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, 32*len(bits))
	}
	for _, n := range numbers2 {
		eight(n.name, n.bits)
	}
	for _, full := range []bool{true, false} {
		var bits []uint32
		for _, c := range coefficients(full) {
			bits = append(bits, math.Float32bits(c))
		}
		eight(polynomial2(full), bits...)
	}
}

func polynomial2(full bool) string {
	if full {
		return "exp2Full"
	}
	return "exp2Short"
}

// exp2AVX makes registers 0 to n-1 their exp2. It changes 4 to 11.
func (f *file) exp2AVX(full bool, n int) {
	mode, all := 9, coefficients(full) // floor
	if full {
		mode = 8 // to nearest
	}
	for i := range n {
		f.op("VROUNDPS $%d, Y%d, Y%d", mode, i, 4+i)
		f.op("VSUBPS Y%d, Y%d, Y%d", 4+i, i, 4+i)
		f.op("VMOVUPS %s<>(SB), Y%d", polynomial2(full), 8+i)
	}
	for c := 1; c < len(all); c++ {
		for i := range n {
			f.op("VFMADD213PS %s<>+%d(SB), Y%d, Y%d", polynomial2(full), c*32, 4+i, 8+i)
		}
	}
	for i := range n { // times 2^n by n's bits; 0 below -126
		f.op("VROUNDPS $%d, Y%d, Y%d", mode, i, 4+i)
		f.op("VCVTPS2DQ Y%d, Y%d", 4+i, 4+i)
		f.op("VPADDD bias<>(SB), Y%d, Y%d", 4+i, 4+i)
		f.op("VPSLLD $23, Y%d, Y%d", 4+i, 4+i)
		f.op("VMULPS Y%d, Y%d, Y%d", 4+i, 8+i, 8+i)
		f.op("VCMPPS $5, least<>(SB), Y%d, Y%d // not below", i, i)
		f.op("VANDPS Y%d, Y%d, Y%d", 8+i, i, i)
	}
}

// round2 makes bf16 of fp32 other than denormals, leaving the low half undefined. It changes 4 and 5.
func (f *file) round2(y int) {
	const tmp, none = 4, 5
	f.op("VPSRLD $16, Y%d, Y%d", y, tmp)
	f.op("VPAND odd<>(SB), Y%d, Y%d", tmp, tmp)
	f.op("VPADDD half<>(SB), Y%d, Y%d", tmp, tmp)
	f.op("VPADDD Y%d, Y%d, Y%d", tmp, y, tmp)
	f.op("VCMPPS $3, Y%d, Y%d, Y%d", y, y, none)
	f.op("VORPS quiet<>(SB), Y%d, Y%d", y, y)
	f.op("VBLENDVPS Y%d, Y%d, Y%d, Y%d", none, y, tmp, y)
}

// panel2 writes four rounded rows, those from rows on zeros, as two rows of a paired panel.
func (f *file) panel2(full bool, rows int) {
	if full {
		return
	}
	for i := range 2 {
		hi, lo := i, i+2
		if hi >= rows {
			f.op("VXORPS Y%d, Y%d, Y%d", hi, hi, hi)
		} else {
			f.op("VANDPS upper<>(SB), Y%d, Y%d", hi, hi)
		}
		if lo < rows {
			f.op("VPSRLD $16, Y%d, Y%d", lo, lo)
			f.op("VPOR Y%d, Y%d, Y%d", lo, hi, hi)
		}
		f.op("VMOVUPS Y%d, %d(DI)", hi, i*128)
	}
}

// rope2 turns the heads of one token on path AVX2; pairs are a multiple of eight. Registers 0 and 1 are the pairs'
// elements, 2 and 3 products, 6 and 7 cosines and sines, 8 the sign; round2 takes 4 and 5.
func (f *file) rope2(name string, halves, float bool) {
	f.fn(name, 8, "func "+name+"(t *turning)\nRope of the heads of one token; pairs are a multiple of eight.")
	f.op("MOVQ t+0(FP), BX")
	f.op("VBROADCASTSS turning_sign(BX), Y8")
	f.op("MOVQ turning_x(BX), SI")
	f.op("MOVQ turning_y(BX), DI")
	f.op("MOVQ turning_heads(BX), DX")
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
	step := 4 // pairs
	if halves {
		step = 8
		f.halves2(float)
	} else {
		f.interleaved2(float)
	}
	f.op("ADDQ $%d, R8", 8*size)
	f.op("ADDQ $%d, R9", 8*size)
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

// halves2 turns eight pairs whose elements lie half a head apart.
func (f *file) halves2(float bool) {
	f.op("VMOVUPS (R10), Y6")
	f.op("VMOVUPS (R11), Y7")
	f.op("VXORPS Y8, Y7, Y7")
	f.load2("(R8)", 0, float)
	f.load2("(R8)(R13*1)", 1, float)
	f.op("VMULPS Y7, Y1, Y2")
	f.op("VMULPS Y7, Y0, Y3")
	f.op("VFMSUB213PS Y2, Y6, Y0")
	f.op("VFMADD213PS Y3, Y6, Y1")
	f.store2(0, "(R9)", float)
	f.store2(1, "(R9)(R13*1)", float)
}

// interleaved2 turns four pairs whose elements are neighbours.
func (f *file) interleaved2(float bool) {
	f.twice2("(R10)", 6)
	f.twice2("(R11)", 7)
	f.op("VXORPS Y8, Y7, Y7")
	f.load2("(R8)", 0, float)
	f.op("VPERMILPS $0xB1, Y0, Y2")
	f.op("VMULPS Y7, Y2, Y2")
	f.op("VFMADDSUB213PS Y2, Y6, Y0")
	f.store2(0, "(R9)", float)
}

// twice2 is four numbers, each two times.
func (f *file) twice2(at string, y int) {
	f.op("VPMOVZXDQ %s, Y%d", at, y)
	f.op("VMOVSLDUP Y%d, Y%d", y, y)
}

// load2 is eight elements.
func (f *file) load2(at string, y int, float bool) {
	if float {
		f.op("VMOVUPS %s, Y%d", at, y)
		return
	}
	f.op("VPMOVZXWD %s, Y%d", at, y)
	f.op("VPSLLD $16, Y%d, Y%d", y, y)
}

// store2 writes eight elements.
func (f *file) store2(y int, at string, float bool) {
	if float {
		f.op("VMOVUPS Y%d, %s", y, at)
		return
	}
	f.round2(y)
	f.op("VPSRLD $16, Y%d, Y%d", y, y)
	f.op("VEXTRACTI128 $1, Y%d, X4", y)
	f.op("VPACKUSDW X4, X%d, X%d", y, y)
	f.op("VMOVDQU X%d, %s", y, at)
}
