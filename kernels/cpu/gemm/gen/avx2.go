package main

import "fmt"

// Path AVX2: passes and packing over whole groups of 32 columns. What is narrower
// passes by plain Go.

// widen2 loads eight numbers of either type into Y.
func (f *file) widen2(float bool, at string, disp, y int) {
	if float {
		f.op("VMOVUPS %d%s, Y%d", disp*32, at, y)
		return
	}
	f.op("VPMOVZXWD %d%s, Y%d", disp*16, at, y)
	f.op("VPSLLD $16, Y%d, Y%d", y, y)
}

// combineRows2 is c = c op src over whole rows.
func (f *file) combineRows2(verb, inst string, float bool) {
	name := verb + map[bool]string{false: "RowsBF16", true: "RowsF32"}[float] + "AVX2"
	f.fn(name, 32, fmt.Sprintf(`func %s(c, src unsafe.Pointer, stride, rows int)
		c op= src over rows of 32.`, name))
	f.op("MOVQ c+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ rows+24(FP), CX")
	f.flush()
	f.label("row")
	for i := range 4 {
		f.widen2(float, "(SI)", i, i)
		f.op("VMOVUPS %d(DI), Y%d", i*32, 4+i)
		f.op("%s Y%d, Y%d, Y%d", inst, i, 4+i, i)
		f.op("VMOVUPS Y%d, %d(DI)", i, i*32)
	}
	f.op("ADDQ R8, SI")
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// storeRows2 is dst = c + bias over whole rows.
func (f *file) storeRows2(float bool) {
	name := map[bool]string{false: "storeRowsBF16", true: "storeRowsF32"}[float] + "AVX2"
	f.fn(name, 40, fmt.Sprintf(`func %s(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)
		dst gets c plus 32 biases over rows of 32.`, name))
	f.op("MOVQ c+0(FP), SI")
	f.op("MOVQ dst+8(FP), DI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ rows+24(FP), CX")
	f.op("MOVQ bias+32(FP), BX")
	f.flush()
	if !float {
		f.roundConstants2()
	}
	f.label("row")
	for i := range 4 {
		f.op("VMOVUPS %d(SI), Y%d", i*32, i)
		f.op("VADDPS %d(BX), Y%d, Y%d", i*32, i, i)
		if float {
			f.op("VMOVUPS Y%d, %d(DI)", i, i*32)
			continue
		}
		f.round2(i)
		f.op("VPSRLD $16, Y%d, Y%d", i, i)
		if i%2 == 1 {
			f.op("VPACKUSDW Y%d, Y%d, Y%d", i, i-1, i)
			f.op("VPERMQ $0xD8, Y%d, Y%d", i, i)
			f.op("VMOVDQU Y%d, %d(DI)", i, i/2*32)
		}
	}
	f.op("ADDQ R8, DI")
	f.op("ADDQ $128, SI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// addScaled2 is c += alpha · t, two roundings.
func (f *file) addScaled2() {
	f.fn("addScaledAVX2", 28, `func addScaledAVX2(c, t unsafe.Pointer, rows int, alpha float32)
		c += alpha t, two roundings, over rows of 32.`)
	f.op("MOVQ c+0(FP), DI")
	f.op("MOVQ t+8(FP), SI")
	f.op("MOVQ rows+16(FP), CX")
	f.flush()
	f.op("VBROADCASTSS alpha+24(FP), Y4")
	f.label("row")
	for i := range 4 {
		f.op("VMULPS %d(SI), Y4, Y%d", i*32, i)
		f.op("VADDPS %d(DI), Y%d, Y%d", i*32, i, i)
		f.op("VMOVUPS Y%d, %d(DI)", i, i*32)
	}
	f.op("ADDQ $128, SI")
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// wideRun2 writes groups of eight numbers as fp32, rounded to bf16 where asked.
func (f *file) wideRun2(name string, float bool) {
	f.fn(name, 24, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, groups int)
		dst gets groups of 8 numbers as fp32 that are bf16.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ groups+16(FP), CX")
	if float {
		f.roundConstants2()
	}
	f.label("group")
	f.widen2(float, "(SI)", 0, 0)
	if float {
		f.round2(0)
		f.op("VPSRLD $16, Y0, Y0")
		f.op("VPSLLD $16, Y0, Y0")
	}
	f.op("VMOVUPS Y0, (DI)")
	f.op("ADDQ $%d, SI", map[bool]int{false: 16, true: 32}[float])
	f.op("ADDQ $32, DI")
	f.op("DECQ CX")
	f.op("JNE group")
	f.plainRet()
}

// roundConstants2 are what round2 needs in Y11 to Y15.
func (f *file) roundConstants2() {
	for i, c := range []string{"1", "0x7FFF", "0x400000", "0x7F800000", "0x80000000"} {
		f.op("MOVL $%s, AX", c)
		f.op("VMOVD AX, X%d", 11+i)
		f.op("VPBROADCASTD X%d, Y%d", 11+i, 11+i)
	}
}

// round2 is round for path AVX2, with roundConstants2 in registers. It changes Y8 to Y10.
func (f *file) round2(y int) { f.roundBy(y, [5]string{"Y11", "Y12", "Y13", "Y14", "Y15"}) }

// roundBy is round2 by 1, 0x7FFF, 0x400000, 0x7F800000 and 0x80000000, wherever they are.
func (f *file) roundBy(y int, constants [5]string) {
	f.op("VPSRLD $16, Y%d, Y8", y)
	f.op("VPAND %s, Y8, Y8", constants[0])
	f.op("VPADDD %s, Y8, Y8", constants[1])
	f.op("VPADDD Y%d, Y8, Y8", y)
	f.op("VCMPPS $3, Y%d, Y%d, Y9", y, y)
	f.op("VPOR %s, Y%d, Y10", constants[2], y)
	f.op("VPBLENDVB Y9, Y10, Y8, Y8")
	f.op("VPAND %s, Y%d, Y9", constants[3], y)
	f.op("VPXOR Y10, Y10, Y10")
	f.op("VPCMPEQD Y10, Y9, Y9")
	f.op("VPAND %s, Y%d, Y10", constants[4], y)
	f.op("VPBLENDVB Y9, Y10, Y8, Y%d", y)
}

func avx2PassesFile() *file {
	f := newFile()
	for _, float := range []bool{false, true} {
		f.combineRows2("add", "VADDPS", float)
		f.combineRows2("mul", "VMULPS", float)
		f.storeRows2(float)
	}
	f.addScaled2()
	f.wideRun2("widenAVX2", false)
	f.wideRun2("roundAVX2", true)
	return f
}
