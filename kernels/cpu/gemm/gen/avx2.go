package main

import (
	"fmt"
	"strings"
)

// Path AVX2: block kernels of up to 6 rows x 32 columns, one half of the panel (R10) after the other. Twelve
// registers hold sums. The kernels bring near the next rows of A and the memory after the panel: without that,
// products that do not fit into L2 run at half the speed.

// halves runs work on both halves of each row block.
func (f *file) halves(rows int, work func()) {
	f.label("rows")
	f.op("MOVQ $0, R10")
	f.label("half")
	work()
	f.op("ADDQ $64, R10")
	f.op("CMPQ R10, $128")
	f.op("JNE half")
	f.nextRows(rows)
	f.ret()
}

// startHalf points SI at the block's rows, R15 at those after them, BX at the half panel.
func (f *file) startHalf(rows int) {
	f.op("MOVQ R12, SI")
	f.op("IMUL3Q $%d, R8, R15", rows)
	f.op("ADDQ SI, R15")
	f.op("LEAQ (R13)(R10*1), BX")
	f.op("MOVQ block_steps(AX), CX")
	f.op("CMPQ block_start(AX), $0")
}

// cAt is where 8 columns of a row of C are.
func cAt(row, i int) string { return fmt.Sprintf("%d(DI)(R10*1)", row*128+i*32) }

// near brings a line of the next rows of A near.
func (f *file) near(at address) {
	at.base = 15
	f.op("PREFETCHT0 %s", at)
}

// ahead brings lines after the panel near.
func (f *file) ahead(lines int) {
	for i := range lines {
		f.op("PREFETCHT1 %d(R11)", i*64)
	}
	f.op("ADDQ block_aheadStep(AX), R11")
}

// f32Dot2 is the fp32 kernel of path AVX2 for blocks of rows x 32.
func (f *file) f32Dot2(rows int) {
	name := fmt.Sprintf("f32AVX2Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] = one chain of FMA over k.`, name, rows))
	f.blockProlog()
	row := aRows(f, rows)
	each := func(do func(y int, at string)) {
		for i := range rows * 2 {
			do(i, cAt(i/2, i%2))
		}
	}
	one := func(k int) {
		f.op("VMOVUPS %d(BX), Y12", k*128)
		f.op("VMOVUPS %d(BX), Y13", k*128+32)
		for r := range rows {
			f.op("VBROADCASTSS %s, Y%d", row(r, k*4), 14+r%2)
			f.op("VFMADD231PS Y12, Y%d, Y%d", 14+r%2, r*2)
			f.op("VFMADD231PS Y13, Y%d, Y%d", 14+r%2, r*2+1)
		}
	}
	f.halves(rows, func() {
		f.startHalf(rows)
		f.op("JNE load")
		each(func(y int, _ string) { f.op("VXORPS Y%d, Y%d, Y%d", y, y, y) })
		f.op("JMP loaded")
		f.label("load")
		each(func(y int, at string) { f.op("VMOVUPS %s, Y%d", at, y) })
		f.label("loaded")
		f.op("SUBQ $4, CX")
		f.op("JLT tail")
		f.label("four")
		for k := range 4 {
			one(k)
		}
		for r := range rows {
			f.near(row(r, 0))
		}
		f.op("ADDQ $16, R15")
		f.ahead(prefetches(rows*2) / 4)
		f.advance(rows, 16, 512)
		f.op("SUBQ $4, CX")
		f.op("JGE four")
		f.label("tail")
		f.op("ADDQ $4, CX")
		f.op("JEQ done")
		f.label("one")
		one(0)
		f.advance(rows, 4, 128)
		f.op("DECQ CX")
		f.op("JNE one")
		f.label("done")
		each(func(y int, at string) { f.op("VMOVUPS Y%d, %s", y, at) })
	})
}

// wideDot2 is the bf16 kernel of path AVX2 for blocks of rows x 32. Chains E and O of three
// rows x 16 columns fill the twelve registers, so the block's rows go in two parts.
func (f *file) wideDot2(rows int) {
	name := fmt.Sprintf("wideAVX2Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] += E + O for each step of 32 k.`, name, rows))
	f.blockProlog()
	f.op("VPCMPEQD Y15, Y15, Y15")
	f.op("VPSLLD $16, Y15, Y15")
	row := aRows(f, rows)
	parts := (rows + 2) / 3
	f.halves(rows, func() {
		for part := range parts {
			f.widePart2(rows, part*rows/parts, (part+1)*rows/parts, row)
		}
	})
}

// widePart2 is rows from to to-1 of half a panel, over all steps of k.
func (f *file) widePart2(rows, from, to int, row func(r, disp int) address) {
	step := fmt.Sprintf("step%d", from)
	each := func(do func(e, o int, at string)) {
		for r := range to - from {
			for i := range 2 {
				do(r*4+i, r*4+2+i, cAt(from+r, i))
			}
		}
	}
	f.startHalf(rows)
	f.op("JNE %s", step)
	f.op("VXORPS Y0, Y0, Y0")
	each(func(_, _ int, at string) { f.op("VMOVUPS Y0, %s", at) })
	f.label(step)
	for i := range (to - from) * 4 {
		f.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	for j := range 8 {
		for low := range 2 { // the high halves are k = 4j and 4j+1, the low ones 4j+2 and 4j+3
			for chain := range 2 {
				f.halfDwords2(j*256+chain*128, low == 1)
				for r := range to - from {
					f.op("VBROADCASTSS %s, Y14", row(from+r, j*16+low*8+chain*4))
					f.op("VFMADD231PS Y12, Y14, Y%d", r*4+chain*2)
					f.op("VFMADD231PS Y13, Y14, Y%d", r*4+chain*2+1)
				}
			}
		}
	}
	for r := from; r < to; r++ {
		f.near(row(r, 0))
		f.near(row(r, 64))
	}
	f.op("ADDQ $128, R15")
	if from == 0 {
		f.ahead(24 / rows)
	}
	each(func(e, o int, at string) {
		f.op("VADDPS Y%d, Y%d, Y%d", o, e, e)
		f.op("VADDPS %s, Y%d, Y%d", at, e, e)
		f.op("VMOVUPS Y%d, %s", e, at)
	})
	f.advance(rows, 128, 2048)
	f.op("DECQ CX")
	f.op("JNE %s", step)
}

// halfDwords2 makes fp32 of 16 columns' high or low bf16, in Y12 and Y13.
func (f *file) halfDwords2(disp int, low bool) {
	for y := 12; y < 14; y++ {
		at := fmt.Sprintf("%d(BX)", disp+(y-12)*32)
		if low {
			f.op("VMOVDQU %s, Y%d", at, y)
			f.op("VPSLLD $16, Y%d, Y%d", y, y)
		} else {
			f.op("VPAND %s, Y15, Y%d", at, y)
		}
	}
}

// Path AVX2: packing of whole groups of 32 columns. Plain Go packs a panel's tails.

// words2 are numbers of 16 bits, each sixteen times; dwords2 of 32 bits, eight times.
var words2 = []struct {
	name string
	bits uint16
}{{"absolute", 0x7FFF}, {"infinite", 0x7F80}, {"normal", 0x0080}, {"quiet", 0x0040}}

var dwords2 = []struct {
	name string
	bits uint32
}{{"odd", 1}, {"half", 0x7FFF}, {"quiet32", 0x400000}, {"exponent", 0x7F800000}, {"sign", 0x80000000}}

func (f *file) tables2() {
	table := func(name, eight string) {
		for i := range 4 {
			fmt.Fprintf(f, "DATA %s<>+%d(SB)/8, $0x%s\n", name, i*8, eight)
		}
		fmt.Fprintf(f, "GLOBL %s<>(SB), RODATA|NOPTR, $32\n\n", name)
	}
	for _, w := range words2 {
		table(w.name, strings.Repeat(fmt.Sprintf("%04x", w.bits), 4))
	}
	for _, d := range dwords2 {
		table(d.name, strings.Repeat(fmt.Sprintf("%08x", d.bits), 2))
	}
	// The words of four k as two dwords: {low: third, high: first}, {fourth, second}.
	for i := range 4 {
		fmt.Fprintf(f, "DATA pairs<>+%d(SB)/8, $0x%s\n", i*8, []string{"0302070601000504", "0b0a0f0e09080d0c"}[i%2])
	}
	f.WriteString("GLOBL pairs<>(SB), RODATA|NOPTR, $32\n\n")
}

// sixteen loads sixteen numbers as bf16 into Y, denormals as zeros and NaNs quiet. It changes 8 and, of fp32, 9 to 11.
func (f *file) sixteen(float bool, disp int, at string, y int) {
	if !float {
		f.op("VMOVDQU %d%s, Y%d", disp, at, y)
		f.op("VPAND absolute<>(SB), Y%d, Y8", y)
		f.op("VPCMPGTW infinite<>(SB), Y8, Y9")
		f.op("VPAND quiet<>(SB), Y9, Y9")
		f.op("VPOR Y9, Y%d, Y%d", y, y)
		f.op("VMOVDQU normal<>(SB), Y9")
		f.op("VPCMPGTW Y8, Y9, Y9")
		f.op("VPAND absolute<>(SB), Y9, Y9")
		f.op("VPANDN Y%d, Y9, Y%d", y, y)
		return
	}
	f.op("VMOVUPS %d%s, Y%d", disp, at, y)
	f.op("VMOVUPS %d%s, Y11", disp+32, at)
	for _, r := range []int{y, 11} {
		f.roundBy(r, [5]string{"odd<>(SB)", "half<>(SB)", "quiet32<>(SB)", "exponent<>(SB)", "sign<>(SB)"})
		f.op("VPSRLD $16, Y%d, Y%d", r, r)
	}
	f.op("VPACKUSDW Y11, Y%d, Y%d", y, y)
	f.op("VPERMQ $0xD8, Y%d, Y%d", y, y)
}

// turn8 writes the 8 x 8 dwords of registers 0 to 7 turned over, as rows of 128 bytes at DI. It changes 8 to 15.
func (f *file) turn8() {
	for i := 0; i < 8; i += 2 {
		f.op("VUNPCKLPS Y%d, Y%d, Y%d", i+1, i, 8+i)
		f.op("VUNPCKHPS Y%d, Y%d, Y%d", i+1, i, 9+i)
	}
	for i := range 4 { // of 8, 10 | 9, 11 | 12, 14 | 13, 15
		a := 8 + i/2*4 + i%2
		f.op("VUNPCKLPD Y%d, Y%d, Y%d", a+2, a, 2*i)
		f.op("VUNPCKHPD Y%d, Y%d, Y%d", a+2, a, 2*i+1)
	}
	for i := range 8 {
		f.op("VPERM2F128 $0x%d, Y%d, Y%d, Y8", []int{20, 31}[i/4], 4+i%4, i%4)
		f.op("VMOVUPS Y8, %d(DI)", i*128)
	}
}

// packLines2 packs eight columns whose numbers lie side by side: steps of 16 k as pairs of bf16, or of 8 k as fp32.
func (f *file) packLines2(name string, paired, float bool) {
	f.fn(name, 32, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, steps int)
		dst gets 8 columns of a panel from lines that lie stride bytes apart.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ steps+24(FP), CX")
	f.op("LEAQ (R8)(R8*2), R9")
	f.label("step")
	f.op("LEAQ (SI)(R8*4), DX")
	for i := range 8 {
		at := "(" + []string{"SI", "DX"}[i/4] + ")" + []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[i%4]
		switch {
		case paired:
			f.sixteen(float, 0, at, i)
			f.op("VPSHUFB pairs<>(SB), Y%d, Y%d", i, i)
		case float:
			f.op("VMOVUPS %s, Y%d", at, i)
		default:
			f.op("VPMOVZXWD %s, Y%d", at, i)
			f.op("VPSLLD $16, Y%d, Y%d", i, i)
		}
	}
	f.turn8()
	bytes := map[bool]int{false: 2, true: 4}[float] * map[bool]int{false: 8, true: 16}[paired]
	f.op("ADDQ $%d, SI", bytes)
	f.op("ADDQ $1024, DI")
	f.op("DECQ CX")
	f.op("JNE step")
	f.plainRet()
}

// packAcross2 packs steps of four k, whose 32 columns lie side by side, as pairs.
func (f *file) packAcross2(name string, float bool) {
	f.fn(name, 32, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, steps int)
		dst gets 32 columns of a panel from rows of k that lie stride bytes apart.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ steps+24(FP), CX")
	f.label("step")
	f.op("LEAQ (SI)(R8*2), DX")
	size := map[bool]int{false: 2, true: 4}[float]
	for chain := range 2 {
		for half := range 2 {
			row := []string{"", "(R8*1)"}[chain]
			f.sixteen(float, half*16*size, "(SI)"+row, 0)
			f.sixteen(float, half*16*size, "(DX)"+row, 1)
			f.op("VPUNPCKLWD Y0, Y1, Y2")
			f.op("VPUNPCKHWD Y0, Y1, Y3")
			f.op("VPERM2I128 $0x20, Y3, Y2, Y4")
			f.op("VPERM2I128 $0x31, Y3, Y2, Y5")
			f.op("VMOVDQU Y4, %d(DI)", chain*128+half*64)
			f.op("VMOVDQU Y5, %d(DI)", chain*128+half*64+32)
		}
	}
	f.op("LEAQ (SI)(R8*4), SI")
	f.op("ADDQ $256, DI")
	f.op("DECQ CX")
	f.op("JNE step")
	f.plainRet()
}

func avx2PackFile() *file {
	f := newFile()
	f.tables2()
	for i, of := range []string{"BF16", "F32"} {
		f.packLines2("packLines"+of+"AVX2", false, i == 1)
		f.packLines2("packPairs"+of+"AVX2", true, i == 1)
		f.packAcross2("packAcross"+of+"AVX2", i == 1)
	}
	return f
}

// Path AVX2: passes and packing over whole groups of 32 columns. Narrower ones pass by plain Go.

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

// roundConstants2 are round2's constants in Y11 to Y15.
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
