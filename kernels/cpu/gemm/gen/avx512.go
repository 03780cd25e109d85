package main

import "fmt"

// Block kernels share their frame: arguments, a loop over row blocks, inside it a
// loop over steps of k. Registers:
//
//	AX  arguments       SI, R10      rows 0 and 7 of packed A
//	BX  panel of B      R8, R9, R14  row stride of A, times 3, times 5
//	DI  C               CX           steps left       DX  row blocks left
//	R11 prefetch        R12, R13     starts of A and B
func (f *file) blockProlog() {
	f.op("MOVQ a+0(FP), AX")
	f.op("MOVQ block_c(AX), DI")
	f.op("MOVQ block_a(AX), R12")
	f.op("MOVQ block_b(AX), R13")
	f.op("MOVQ block_lda(AX), R8")
	f.op("MOVQ block_blocks(AX), DX")
	f.op("MOVQ block_ahead(AX), R11")
	f.flush()
}

// bf16Dot is the kernel of path BF16 for blocks of rows x 32, or of rows x 16 where the other half of the panel is
// not wanted. The last step may have fewer than its eight groups of four k: the missing ones are zeros, which turn a
// sum of -0 into +0.
func (f *file) bf16Dot(rows, halves int) {
	name := fmt.Sprintf("bf16%s%d", kind(halves), rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][%d] += E + O for each step of 32 k.`, name, rows, halves*16))
	f.blockProlog()
	acc := func(r, half, chain int) int { return (r*2+chain)*halves + half }
	row := aRows(f, rows)
	f.startRows(rows, halves)
	f.op("MOVQ block_start(AX), R15 // whether C holds a sum")
	tmp := 0
	group := func(j int) {
		for chain := range 2 {
			for half := range halves {
				f.op("VMOVDQU32 %d(BX), Z%d", j*256+chain*128+half*64, 24+chain*2+half)
			}
		}
		for r := range rows {
			for chain := range 2 {
				if halves == 1 {
					f.dpbf16Spread(row(r, j*8+chain*4), 24+chain*2, acc(r, 0, chain))
					continue
				}
				t := 28 + tmp%4
				tmp++
				f.op("VPBROADCASTD %s, Z%d", row(r, j*8+chain*4), t)
				for half := range halves {
					f.dpbf16(24+chain*2+half, t, acc(r, half, chain))
				}
			}
		}
	}
	f.label("step")
	for i := range rows * 2 * halves {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.op("CMPQ CX, $1")
	f.op("JNE whole")
	f.op("MOVQ block_tail(AX), CX")
	f.op("TESTQ CX, CX")
	f.op("JNE group")
	f.op("MOVQ $1, CX")
	f.label("whole")
	for j := range 8 {
		group(j)
		for i := range 4 {
			f.op("PREFETCHT1 %d(R11)", (j*4+i)*64)
		}
	}
	f.advance(rows, 64, 2048)
	f.op("ADDQ block_aheadStep(AX), R11")
	f.label("sum")
	each := func(do func(e, o, at int)) {
		for r := range rows {
			for half := range halves {
				do(acc(r, half, 0), acc(r, half, 1), r*128+half*64)
			}
		}
	}
	each(func(e, o, _ int) { f.op("VADDPS Z%d, Z%d, Z%d", o, e, e) })
	f.op("TESTQ R15, R15")
	f.op("JEQ first")
	each(func(e, _, at int) { f.op("VADDPS %d(DI), Z%d, Z%d", at, e, e) })
	f.op("JMP added")
	f.label("first")
	f.op("VPXORD Z28, Z28, Z28")
	each(func(e, _, _ int) { f.op("VADDPS Z28, Z%d, Z%d", e, e) })
	f.op("MOVQ $1, R15")
	f.label("added")
	f.op("DECQ CX")
	f.op("JEQ last")
	each(func(e, _, at int) { f.op("VMOVUPS Z%d, %d(DI)", e, at) })
	f.op("JMP step")
	f.label("group")
	group(0)
	f.advance(rows, 8, 256)
	f.op("DECQ CX")
	f.op("JNE group")
	f.op("VPXORD Z28, Z28, Z28")
	for i := range rows * 2 * halves {
		f.op("VADDPS Z28, Z%d, Z%d", i, i)
	}
	f.op("MOVQ $1, CX")
	f.op("JMP sum")
	f.label("last")
	f.finishRows(rows, halves, func(r, half int) int { return acc(r, half, 0) }, 24)
	f.ret()
}

// kind names kernels by their width.
func kind(halves int) string {
	if halves == 1 {
		return "Narrow"
	}
	return "Rows"
}

// finishRows stores a block of sums to C, or to where the caller wants the finished
// block, and goes on to the next.
func (f *file) finishRows(rows, halves int, at func(r, half int) int, free int) {
	if halves == 2 {
		f.op("CMPQ block_out(AX), $0")
		f.op("JNE out")
	}
	for r := range rows {
		for half := range halves {
			f.op("VMOVUPS Z%d, %d(DI)", at(r, half), r*128+half*64)
		}
	}
	if halves == 2 {
		f.label("out")
		f.storeOut(rows, at, free)
	}
	f.nextRows(rows)
}

// aRows sets the strides up and returns the addressing of A's rows: SI is row 0,
// R10 row 7, and R8, R9, R14 are 1, 3 and 5 row strides.
func aRows(f *file, rows int) func(r, disp int) address {
	if rows > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
	}
	if rows > 5 {
		f.op("LEAQ (R8)(R8*4), R14")
	}
	return func(r, disp int) address {
		const si, r8, r9, r10, r14 = 6, 8, 9, 10, 14
		base := si
		if r >= 7 {
			base, r = r10, r-7
		}
		at := [...]address{{index: -1}, {index: r8, scale: 1}, {index: r8, scale: 2}, {index: r9, scale: 1}, {index: r8, scale: 4}, {index: r14, scale: 1}, {index: r9, scale: 2}}[r]
		at.base, at.disp = base, disp
		return at
	}
}

// startRows points SI (and R10) at the block's first row of A, BX at the panel.
func (f *file) startRows(rows, halves int) {
	f.label("rows")
	if halves == 2 {
		f.prefetchOut(rows)
	}
	f.op("MOVQ R12, SI")
	if rows > 7 {
		f.op("LEAQ (R12)(R9*2), R10")
		f.op("ADDQ R8, R10")
	}
	f.op("MOVQ R13, BX")
	f.op("MOVQ block_steps(AX), CX")
}

// prefetchOut asks for the lines that storeOut will write: a store that misses would
// hold up those of the scratch block behind it.
func (f *file) prefetchOut(rows int) {
	f.op("MOVQ block_out(AX), CX")
	f.op("TESTQ CX, CX")
	f.op("JEQ asked")
	f.op("MOVQ block_outStride(AX), BX")
	for range rows {
		f.op("BYTE $0x0F; BYTE $0x0D; BYTE $0x09 // PREFETCHW (CX)")
		f.op("ADDQ BX, CX")
	}
	f.label("asked")
}

// storeOut stores a finished block with its biases into C itself, where the caller wants
// that: rows of all 32 columns, as fp32 or bf16. It ends at label next.
func (f *file) storeOut(rows int, at func(r, half int) int, free int) {
	f.op("MOVQ block_out(AX), R10")
	f.op("TESTQ R10, R10")
	f.op("JEQ next")
	f.op("MOVQ block_bias(AX), BX")
	f.op("VMOVUPS (BX), Z%d", free)
	f.op("VMOVUPS 64(BX), Z%d", free+1)
	for r := range rows {
		for half := range 2 {
			f.op("VADDPS Z%d, Z%d, Z%d", free+half, at(r, half), at(r, half))
		}
	}
	f.op("MOVQ block_outStride(AX), CX")
	f.op("CMPQ block_outBF16(AX), $0")
	f.op("JNE narrow")
	for r := range rows {
		f.op("VMOVUPS Z%d, (R10)", at(r, 0))
		f.op("VMOVUPS Z%d, 64(R10)", at(r, 1))
		f.op("ADDQ CX, R10")
	}
	f.op("MOVQ R10, block_out(AX)")
	f.op("JMP next")
	f.label("narrow")
	for r := range rows {
		f.cvt2bf16(at(r, 0), at(r, 1), at(r, 0))
		f.op("VMOVDQU32 Z%d, (R10)", at(r, 0))
		f.op("ADDQ CX, R10")
	}
	f.op("MOVQ R10, block_out(AX)")
	f.label("next")
}

// nextRows moves A and C on and closes the loop over row blocks.
func (f *file) nextRows(rows int) {
	f.op("IMUL3Q $%d, R8, CX", rows)
	f.op("ADDQ CX, R12")
	f.op("ADDQ $%d, DI", rows*128)
	f.op("DECQ DX")
	f.op("JNE rows")
}

// advance moves A and B to the next k.
func (f *file) advance(rows, a, b int) {
	f.op("ADDQ $%d, BX", b)
	f.op("ADDQ $%d, SI", a)
	if rows > 7 {
		f.op("ADDQ $%d, R10", a)
	}
}

// f32Dot is the kernel of paths AVX512 and up for blocks of rows x 32, or of rows x 16
// where the other half of the panel is not wanted: C is held in registers over all k.
func (f *file) f32Dot(rows, halves int) {
	name := fmt.Sprintf("f32%s%d", kind(halves), rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][%d] = one chain of FMA over k.`, name, rows, halves*16))
	f.blockProlog()
	row := aRows(f, rows)
	acc := func(r, half int) int { return r*halves + half }
	each := func(do func(z, at int)) {
		for r := range rows {
			for half := range halves {
				do(acc(r, half), r*128+half*64)
			}
		}
	}
	f.startRows(rows, halves)
	f.op("CMPQ block_start(AX), $0")
	f.op("JNE load")
	each(func(z, _ int) { f.op("VPXORD Z%d, Z%d, Z%d", z, z, z) })
	f.op("JMP loaded")
	f.label("load")
	each(func(z, at int) { f.op("VMOVUPS %d(DI), Z%d", at, z) })
	f.label("loaded")
	one := func(k, parity int) {
		for half := range halves {
			f.op("VMOVUPS %d(BX), Z%d", k*128+half*64, 28+half)
		}
		for r := range rows {
			if halves == 1 {
				f.op("VFMADD231PS.BCST %s, Z28, Z%d", row(r, k*4), acc(r, 0))
				continue
			}
			t := 30 + (r+parity)%2
			f.op("VBROADCASTSS %s, Z%d", row(r, k*4), t)
			for half := range halves {
				f.op("VFMADD231PS Z%d, Z%d, Z%d", 28+half, t, acc(r, half))
			}
		}
	}
	f.op("SUBQ $4, CX")
	f.op("JLT tail")
	f.label("four")
	for k := range 4 {
		one(k, k*rows)
	}
	if halves == 2 { // a narrow kernel is short of loads
		for i := range prefetches(rows * 2) {
			f.op("PREFETCHT1 %d(R11)", i*64)
		}
		f.op("ADDQ block_aheadStep(AX), R11")
	}
	f.advance(rows, 16, 512)
	f.op("SUBQ $4, CX")
	f.op("JGE four")
	f.label("tail")
	f.op("ADDQ $4, CX")
	f.op("JEQ done")
	f.label("one")
	one(0, 0)
	f.advance(rows, 4, 128)
	f.op("DECQ CX")
	f.op("JNE one")
	f.label("done")
	f.finishRows(rows, halves, acc, 28)
	f.ret()
}

// prefetches is how many lines a step brings near: a kernel of few rows runs through
// its panel faster.
func prefetches(accumulators int) int {
	switch {
	case accumulators > 16:
		return 4
	case accumulators > 8:
		return 8
	}
	return 16
}

// The bf16 rule without VDPBF16PS: A is packed as fp32, and the halves of B's dwords
// are spread over registers. Same panels of B, same bits.

// wideDot is the kernel of path AVX512 for blocks of rows x 32.
func (f *file) wideDot(rows int) {
	name := fmt.Sprintf("wideRows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] += E + O for each step of 32 k.`, name, rows))
	f.blockProlog()
	f.op("MOVL $0xFFFF0000, CX")
	f.op("VPBROADCASTD CX, Z31")
	row := aRows(f, rows)
	f.startRows(rows, 2)
	f.op("CMPQ block_start(AX), $0")
	f.op("JNE step")
	f.op("VPXOR X0, X0, X0")
	for i := range rows * 2 {
		f.op("VMOVUPS Z0, %d(DI)", i*64)
	}
	f.label("step")
	for i := range rows * 4 {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	tmp := 0
	for j := range 8 {
		for part := range 2 { // the high halves are k = 4j and 4j+1, the low ones 4j+2 and 4j+3
			for i := range 4 {
				if part == 0 {
					f.op("VPANDD %d(BX), Z31, Z%d", j*256+i*64, 24+i)
				} else {
					f.op("VPSLLD $16, %d(BX), Z%d", j*256+i*64, 24+i)
				}
			}
			for r := range rows {
				for chain := range 2 {
					t := 28 + tmp%3
					tmp++
					f.op("VBROADCASTSS %s, Z%d", row(r, j*16+part*8+chain*4), t)
					for half := range 2 {
						f.op("VFMADD231PS Z%d, Z%d, Z%d", 24+chain*2+half, t, r*4+chain*2+half)
					}
				}
			}
		}
		f.op("PREFETCHT0 %d(R11)", j*64)
	}
	for r := range rows {
		for half := range 2 {
			e, o := r*4+half, r*4+2+half
			f.op("VADDPS Z%d, Z%d, Z%d", o, e, e)
			f.op("VADDPS %d(DI), Z%d, Z%d", r*128+half*64, e, e)
			f.op("VMOVUPS Z%d, %d(DI)", e, r*128+half*64)
		}
	}
	f.advance(rows, 128, 2048)
	f.op("ADDQ block_aheadStep(AX), R11")
	f.op("DECQ CX")
	f.op("JNE step")
	f.nextRows(rows)
	f.ret()
}

// roundRows rounds packed rows of A to bf16, in fp32, and pads them.
func (f *file) roundRows() {
	f.fn("roundRows", 32, `func roundRows(p unsafe.Pointer, stride, rows, k int)
		p's k numbers a row are rounded to bf16; zeros follow up to a multiple of 32.`)
	f.op("MOVQ p+0(FP), DI")
	f.op("MOVQ stride+8(FP), R8")
	f.op("MOVQ rows+16(FP), DX")
	f.op("MOVQ k+24(FP), R10")
	f.roundConstants()
	f.op("VPXORD Z30, Z30, Z30")
	f.label("row")
	f.op("MOVQ DI, R12")
	f.op("MOVQ R10, BX")
	f.label("step")
	f.op("MOVL $0xFFFF, AX")
	f.op("CMPQ BX, $16")
	f.op("JGE all")
	f.op("MOVQ BX, CX")
	f.op("MOVL $1, AX")
	f.op("SHLL CX, AX")
	f.op("DECL AX")
	f.label("all")
	f.op("KMOVW AX, K1")
	f.op("VMOVUPS.Z (R12), K1, Z0")
	f.round(0)
	f.op("VPANDD Z29, Z0, Z0")
	f.op("VMOVUPS Z0, (R12)")
	f.op("ADDQ $64, R12")
	f.op("SUBQ $16, BX")
	f.op("JGT step")
	f.op("MOVQ R12, CX")
	f.op("SUBQ DI, CX")
	f.op("TESTQ $64, CX")
	f.op("JEQ even")
	f.op("VMOVUPS Z30, (R12)")
	f.label("even")
	f.op("ADDQ R8, DI")
	f.op("DECQ DX")
	f.op("JNE row")
	f.plainRet()
}

// roundConstants are round's constants in Z25 to Z29.
func (f *file) roundConstants() {
	for i, c := range []string{"1", "0x7FFF", "0x400000", "0x7F800000", "0xFFFF0000"} {
		f.op("MOVL $%s, AX", c)
		f.op("VPBROADCASTD AX, Z%d", 25+i)
	}
}

// round leaves in the upper halves of Z's dwords its numbers as bf16, to nearest even, denormals as zeros and NaNs
// quiet: as VCVTNEPS2BF16 does. It changes Z24 and K7.
func (f *file) round(z int) {
	f.op("VPSRLD $16, Z%d, Z24", z)
	f.op("VPANDD Z25, Z24, Z24")
	f.op("VPADDD Z26, Z24, Z24")
	f.op("VPADDD Z%d, Z24, Z24", z)
	f.op("VCMPPS $3, Z%d, Z%d, K7", z, z)
	f.op("VPORD Z27, Z%d, K7, Z24", z)
	f.op("VPTESTNMD Z28, Z%d, K7", z)
	f.op("VPSRLD $31, Z%d, K7, Z24", z)
	f.op("VPSLLD $31, Z24, K7, Z24")
	f.op("VMOVDQA32 Z24, Z%d", z)
}

// Packing. Words are bf16, dwords are pairs of them or fp32. "Paired" is the order of
// k that VDPBF16PS needs for the two chains of the bf16 rule: of every four
// consecutive k, the first dword holds {high: 0, low: 2}, the second {high: 1, low: 3}.

// pairBytes pairs the eight words of 16 bytes.
var pairBytes = []int{4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11}

// weaveOne takes words from the halves of one register in turn.
func (f *file) weaveOne() {
	var words []int
	for i := range 32 {
		words = append(words, i/2+i%2*16, 0)
	}
	f.bytes("weaveOne", words)
}

// tables writes the constants of this file.
func (f *file) tables() {
	if !f.natural {
		f.bytes("pairBytes", pairBytes)
	}
	f.weaveOne()
	var weaveLow, weaveHigh, oddWords, evenWords []int
	for i := range 32 {
		word := i/2 + i%2*32
		weaveLow = append(weaveLow, word, 0)
		weaveHigh = append(weaveHigh, word+16, 0)
		n := i&^3 + [...]int{2, 0, 3, 1}[i&3]
		if f.natural {
			n = i
		}
		oddWords = append(oddWords, 2*n+1, 0)
		evenWords = append(evenWords, 2*n, 0)
	}
	f.bytes("weaveLow", weaveLow)
	f.bytes("weaveHigh", weaveHigh)
	f.bytes("oddWords", oddWords)
	f.bytes("evenWords", evenWords)
}

func (f *file) bytes(name string, b []int) {
	for i := 0; i < len(b); i += 8 {
		v := uint64(0)
		for j := range 8 {
			v |= uint64(b[i+j]) << (8 * j)
		}
		fmt.Fprintf(f, "DATA %s<>+%d(SB)/8, $0x%016x\n", name, i, v)
	}
	fmt.Fprintf(f, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, len(b))
}

// pairRows packs rows of A: each 32 k become 64 bytes, paired, zeros after the last.
func (f *file) pairRows(float bool) {
	name := f.named("pairRowsBF16")
	if float {
		name = f.named("pairRowsF32")
	}
	f.fn(name, 48, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)
		dst gets rows of k numbers as bf16, padded with zeros to 32%s.`, name, map[bool]string{false: " and paired"}[f.natural]))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ dstStride+16(FP), R8")
	f.op("MOVQ srcStride+24(FP), R9")
	f.op("MOVQ rows+32(FP), DX")
	f.op("MOVQ k+40(FP), R10")
	pair := func() { f.op("VPSHUFB Z31, Z0, Z0") }
	if f.natural {
		pair = func() {}
	} else {
		f.op("VBROADCASTI32X4 pairBytes<>(SB), Z31")
	}
	if float {
		f.cvtConstants()
	}
	f.op("MOVQ R10, CX")
	f.op("ANDQ $31, CX")
	f.op("MOVL $1, AX")
	f.op("SHLQ CX, AX")
	f.op("DECQ AX")
	if float {
		f.op("KMOVW AX, K1")
		f.op("SHRQ $16, AX")
		f.op("KMOVW AX, K2")
	} else {
		f.op("KMOVD AX, K1")
	}
	f.op("MOVQ R10, R11")
	f.op("SHRQ $5, R11")
	f.op("ANDQ $31, R10")
	f.label("row")
	f.op("MOVQ DI, R12")
	f.op("MOVQ SI, R13")
	f.op("MOVQ R11, CX")
	f.op("TESTQ CX, CX")
	f.op("JEQ tail")
	f.label("step")
	if float {
		f.op("VMOVUPS (R13), Z0")
		f.op("VMOVUPS 64(R13), Z1")
		f.cvt2bf16(0, 1, 0)
		pair()
		f.op("ADDQ $128, R13")
	} else {
		f.op("VMOVDQU16 (R13), Z0")
		pair()
		f.op("ADDQ $64, R13")
	}
	f.op("VMOVDQU32 Z0, (R12)")
	f.op("ADDQ $64, R12")
	f.op("DECQ CX")
	f.op("JNE step")
	f.label("tail")
	f.op("TESTQ R10, R10")
	f.op("JEQ next")
	if float {
		f.op("VMOVUPS.Z (R13), K1, Z0")
		f.op("VMOVUPS.Z 64(R13), K2, Z1")
		f.cvt2bf16(0, 1, 0)
	} else {
		f.op("VMOVDQU16.Z (R13), K1, Z0")
	}
	pair()
	f.op("VMOVDQU32 Z0, (R12)")
	f.label("next")
	f.op("ADDQ R8, DI")
	f.op("ADDQ R9, SI")
	f.op("DECQ DX")
	f.op("JNE row")
	f.plainRet()
}

// transpose writes tiles of 16 x 16 dwords turned over. load, if set, follows each load.
func (f *file) transpose(name, doc string, load func(z int)) {
	f.fn(name, 56, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int)
		%s`, name, doc))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ dstStride+16(FP), R8")
	f.op("MOVQ srcStride+24(FP), R9")
	f.op("MOVQ count+48(FP), CX")
	f.op("LEAQ (R8)(R8*2), R10")
	f.op("LEAQ (R9)(R9*2), R11")
	f.op("VBROADCASTI32X4 pairBytes<>(SB), Z31")
	f.label("tile")
	f.op("MOVQ SI, R12")
	for i := range 16 {
		f.op("VMOVDQU32 %s, Z%d", [...]string{"(R12)", "(R12)(R9*1)", "(R12)(R9*2)", "(R12)(R11*1)"}[i%4], i)
		if load != nil {
			load(i)
		}
		if i%4 == 3 {
			f.op("LEAQ (R12)(R9*4), R12")
		}
	}
	for i := 0; i < 16; i += 2 {
		f.op("VPUNPCKLDQ Z%d, Z%d, Z%d", i+1, i, 16+i)
		f.op("VPUNPCKHDQ Z%d, Z%d, Z%d", i+1, i, 17+i)
	}
	for q := 0; q < 16; q += 4 {
		f.op("VPUNPCKLQDQ Z%d, Z%d, Z%d", 16+q+2, 16+q, q)
		f.op("VPUNPCKHQDQ Z%d, Z%d, Z%d", 16+q+2, 16+q, q+1)
		f.op("VPUNPCKLQDQ Z%d, Z%d, Z%d", 16+q+3, 16+q+1, q+2)
		f.op("VPUNPCKHQDQ Z%d, Z%d, Z%d", 16+q+3, 16+q+1, q+3)
	}
	for c := range 4 {
		f.op("VSHUFI32X4 $0x44, Z%d, Z%d, Z%d", 4+c, c, 16+c)
		f.op("VSHUFI32X4 $0xEE, Z%d, Z%d, Z%d", 4+c, c, 20+c)
		f.op("VSHUFI32X4 $0x44, Z%d, Z%d, Z%d", 12+c, 8+c, 24+c)
		f.op("VSHUFI32X4 $0xEE, Z%d, Z%d, Z%d", 12+c, 8+c, 28+c)
	}
	for c := range 4 {
		f.op("VSHUFI32X4 $0x88, Z%d, Z%d, Z%d", 24+c, 16+c, c)
		f.op("VSHUFI32X4 $0xDD, Z%d, Z%d, Z%d", 24+c, 16+c, 4+c)
		f.op("VSHUFI32X4 $0x88, Z%d, Z%d, Z%d", 28+c, 20+c, 8+c)
		f.op("VSHUFI32X4 $0xDD, Z%d, Z%d, Z%d", 28+c, 20+c, 12+c)
	}
	f.op("MOVQ DI, R12")
	for i := range 16 {
		f.op("VMOVDQU32 Z%d, %s", i, [...]string{"(R12)", "(R12)(R8*1)", "(R12)(R8*2)", "(R12)(R10*1)"}[i%4])
		if i%4 == 3 {
			f.op("LEAQ (R12)(R8*4), R12")
		}
	}
	f.op("ADDQ dstStep+32(FP), DI")
	f.op("ADDQ srcStep+40(FP), SI")
	if load != nil {
		f.op("VBROADCASTI32X4 pairBytes<>(SB), Z31")
	}
	f.op("DECQ CX")
	f.op("JNE tile")
	f.plainRet()
}

// weave packs rows that run across k, 32 at a time, into paired dwords of 32 columns.
func (f *file) weave(float bool) {
	name := f.named("weaveBF16")
	if float {
		name = f.named("weaveF32")
	}
	f.fn(name, 36, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, steps int, columns uint32)
		dst gets steps blocks of 16 dword rows x 32 columns from 32 rows of src each;
		columns has a bit for each column that exists.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ steps+24(FP), DX")
	f.op("LEAQ (R8)(R8*2), R9")
	f.op("MOVQ R8, R10")
	f.op("SHLQ $5, R10 // rows to come: a stride is too long for the hardware's own prefetch")
	f.op("ADDQ SI, R10")
	if float {
		f.cvtConstants()
	}
	f.op("MOVL columns+32(FP), AX")
	if float {
		f.op("KMOVW AX, K1")
		f.op("SHRL $16, AX")
		f.op("KMOVW AX, K2")
		f.op("VMOVDQU32 weaveOne<>(SB), Z31")
	} else {
		f.op("KMOVD AX, K1")
		f.op("VMOVDQU32 weaveLow<>(SB), Z31")
		f.op("VMOVDQU32 weaveHigh<>(SB), Z30")
	}
	f.label("step")
	f.op("MOVL $8, CX")
	f.label("four")
	for _, row := range []string{"(R10)", "(R10)(R8*1)", "(R10)(R8*2)", "(R10)(R9*1)"} {
		f.op("PREFETCHT1 %s", row)
		if float {
			f.op("PREFETCHT1 64%s", row)
		}
	}
	f.op("LEAQ (R10)(R8*4), R10")
	for e := range 2 {
		high := [...]string{"(SI)", "(SI)(R8*1)"}[e]
		low := [...]string{"(SI)(R8*2)", "(SI)(R9*1)"}[e]
		if f.natural {
			low = [...]string{"(SI)", "(SI)(R8*2)"}[e]
			high = [...]string{"(SI)(R8*1)", "(SI)(R9*1)"}[e]
		}
		if float {
			for half := range 2 {
				f.op("VMOVUPS.Z %d%s, K%d, Z%d", half*64, high, half+1, half*2+1)
				f.op("VMOVUPS.Z %d%s, K%d, Z%d", half*64, low, half+1, half*2)
				f.cvt2bf16(half*2, half*2+1, half*2)
				f.op("VPERMW Z%d, Z31, Z%d", half*2, half*2)
				f.op("VMOVDQU32 Z%d, %d(DI)", half*2, e*128+half*64)
			}
		} else {
			f.op("VMOVDQU16.Z %s, K1, Z1", high)
			f.op("VMOVDQU16.Z %s, K1, Z0", low)
			f.op("VMOVDQA32 Z31, Z2")
			f.op("VPERMI2W Z1, Z0, Z2")
			f.op("VPERMT2W Z1, Z30, Z0")
			f.op("VMOVDQU32 Z2, %d(DI)", e*128)
			f.op("VMOVDQU32 Z0, %d(DI)", e*128+64)
		}
	}
	f.op("LEAQ (SI)(R8*4), SI")
	f.op("ADDQ $256, DI")
	f.op("DECQ CX")
	f.op("JNE four")
	f.op("DECQ DX")
	f.op("JNE step")
	f.plainRet()
}

// unweave undoes weave: paired dwords of 32 columns become rows along the columns,
// themselves paired for a product over the columns.
func (f *file) unweave() {
	name := f.named("unweave")
	f.fn(name, 32, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, srcStep, blocks int)
		dst gets 32 rows of 32 bf16 for each block of 16 dword rows x 32 columns.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ srcStep+16(FP), R8")
	f.op("MOVQ blocks+24(FP), CX")
	f.op("VMOVDQU32 oddWords<>(SB), Z31")
	f.op("VMOVDQU32 evenWords<>(SB), Z30")
	f.label("block")
	for i := range 16 {
		odd, even := i/2*4+i%2, i/2*4+i%2+2 // the k of high halves, and of low ones
		if f.natural {
			odd, even = 2*i+1, 2*i
		}
		f.op("VMOVDQU32 %d(SI), Z0", i*128)
		f.op("VMOVDQU32 %d(SI), Z1", i*128+64)
		f.op("VMOVDQA32 Z31, Z2")
		f.op("VPERMI2W Z1, Z0, Z2")
		f.op("VPERMT2W Z1, Z30, Z0")
		f.op("VMOVDQU32 Z2, %d(DI)", odd*64)
		f.op("VMOVDQU32 Z0, %d(DI)", even*64)
	}
	f.op("ADDQ R8, SI")
	f.op("ADDQ $2048, DI")
	f.op("DECQ CX")
	f.op("JNE block")
	f.plainRet()
}

// widenRows turns rows of bf16 into fp32.
func (f *file) widenRows() {
	f.fn("widenRows", 48, `func widenRows(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)
		dst gets rows of k bf16 as fp32.`)
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ rows+32(FP), DX")
	f.op("MOVQ k+40(FP), R10")
	f.op("MOVQ R10, CX")
	f.op("ANDQ $15, CX")
	f.op("MOVL $1, AX")
	f.op("SHLQ CX, AX")
	f.op("DECQ AX")
	f.op("KMOVW AX, K1")
	f.op("SHRQ $4, R10")
	f.label("row")
	f.op("MOVQ DI, R12")
	f.op("MOVQ SI, R13")
	f.op("MOVQ R10, CX")
	f.op("TESTQ CX, CX")
	f.op("JEQ tail")
	f.label("step")
	f.op("VPMOVZXWD (R13), Z0")
	f.op("VPSLLD $16, Z0, Z0")
	f.op("VMOVDQU32 Z0, (R12)")
	f.op("ADDQ $32, R13")
	f.op("ADDQ $64, R12")
	f.op("DECQ CX")
	f.op("JNE step")
	f.label("tail")
	f.op("VPMOVZXWD.Z (R13), K1, Z0")
	f.op("VPSLLD $16, Z0, Z0")
	f.op("VMOVDQU32 Z0, K1, (R12)")
	f.op("ADDQ dstStride+16(FP), DI")
	f.op("ADDQ srcStride+24(FP), SI")
	f.op("DECQ DX")
	f.op("JNE row")
	f.plainRet()
}

// panelRows copies rows across k into a panel of 32 fp32 columns.
func (f *file) panelRows(float bool) {
	name := "panelRowsBF16"
	if float {
		name = "panelRowsF32"
	}
	f.fn(name, 36, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, k int, columns uint32)
		dst gets k rows of 32 fp32, zeros where columns has no bit.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ k+24(FP), CX")
	f.op("MOVL columns+32(FP), AX")
	f.op("KMOVW AX, K1")
	f.op("SHRL $16, AX")
	f.op("KMOVW AX, K2")
	f.op("MOVQ R8, R10")
	f.op("SHLQ $5, R10")
	f.label("row")
	f.op("PREFETCHT1 (SI)(R10*1)")
	if float {
		f.op("PREFETCHT1 64(SI)(R10*1)")
	}
	for half := range 2 {
		if float {
			f.op("VMOVUPS.Z %d(SI), K%d, Z%d", half*64, half+1, half)
		} else {
			f.op("VPMOVZXWD.Z %d(SI), K%d, Z%d", half*32, half+1, half)
			f.op("VPSLLD $16, Z%d, Z%d", half, half)
		}
		f.op("VMOVUPS Z%d, %d(DI)", half, half*64)
	}
	f.op("ADDQ R8, SI")
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.plainRet()
}

// roundingFile is path AVX512's own part.
func roundingFile() *file {
	f := newFile()
	f.bf16 = false
	f.bytes("pairBytes", pairBytes)
	f.weaveOne()
	f.pairRows(true)
	f.weave(true)
	f.storeRows(false)
	f.roundRows()
	return f
}

func packFile() *file {
	f := newFile()
	f.tables()
	f.pairRows(false)
	f.pairRows(true)
	f.transpose("transpose16", "count tiles of 16 x 16 dwords, rows at the strides, tiles at the steps, turned over.", nil)
	f.transpose("transposePaired16", "transpose16 of rows of bf16, which are paired on the way.", func(z int) { f.op("VPSHUFB Z31, Z%d, Z%d", z, z) })
	f.weave(false)
	f.weave(true)
	f.unweave()
	f.widenRows()
	f.panelRows(false)
	f.panelRows(true)
	return f
}

// Passes over a block of C in scratch: rows of 32 fp32. The last of them stores it.

// passProlog loads the arguments that passes share.
func (f *file) passProlog() {
	f.op("MOVQ c+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ rows+24(FP), CX")
	f.op("MOVL columns+32(FP), AX")
	f.op("KMOVW AX, K1")
	f.op("SHRL $16, AX")
	f.op("KMOVW AX, K2")
	f.flush()
}

// combineRows is c = c op src.
func (f *file) combineRows(verb, inst string, float bool) {
	name := verb + "RowsBF16"
	if float {
		name = verb + "RowsF32"
	}
	f.fn(name, 36, fmt.Sprintf(`func %s(c, src unsafe.Pointer, stride, rows int, columns uint32)
		c op= src in the columns that have a bit.`, name))
	f.passProlog()
	f.label("row")
	for h := range 2 {
		if float {
			f.op("VMOVUPS.Z %d(SI), K%d, Z%d", h*64, h+1, h)
		} else {
			f.op("VPMOVZXWD.Z %d(SI), K%d, Z%d", h*32, h+1, h)
			f.op("VPSLLD $16, Z%d, Z%d", h, h)
		}
		f.op("VMOVUPS %d(DI), Z%d", h*64, 2+h)
		f.op("%s Z%d, Z%d, Z%d", inst, h, 2+h, h)
		f.op("VMOVUPS Z%d, %d(DI)", h, h*64)
	}
	f.op("ADDQ R8, SI")
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// storeRows is dst = c + bias.
func (f *file) storeRows(float bool) {
	name := f.named("storeRowsBF16")
	if float {
		name = "storeRowsF32"
	}
	f.fn(name, 48, fmt.Sprintf(`func %s(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer)
		dst gets c plus 32 biases (-0 adds nothing) in the columns that have a bit.`, name))
	f.op("MOVQ c+0(FP), SI")
	f.op("MOVQ dst+8(FP), DI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ rows+24(FP), CX")
	f.cvtConstants()
	f.op("MOVL columns+32(FP), AX")
	f.op("MOVQ bias+40(FP), BX")
	if float {
		f.op("KMOVW AX, K1")
		f.op("SHRL $16, AX")
		f.op("KMOVW AX, K2")
	} else {
		f.op("KMOVD AX, K1")
	}
	f.flush()
	f.op("VMOVUPS (BX), Z4")
	f.op("VMOVUPS 64(BX), Z5")
	f.label("row")
	for h := range 2 {
		f.op("VADDPS %d(SI), Z%d, Z%d", h*64, 4+h, h)
	}
	if float {
		f.op("VMOVUPS Z0, K1, (DI)")
		f.op("VMOVUPS Z1, K2, 64(DI)")
	} else {
		f.cvt2bf16(0, 1, 0)
		f.op("VMOVDQU16 Z0, K1, (DI)")
	}
	f.op("ADDQ R8, DI")
	f.op("ADDQ $128, SI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

// addScaled is c += alpha · t, two roundings.
func (f *file) addScaled() {
	f.fn("addScaled", 28, `func addScaled(c, t unsafe.Pointer, rows int, alpha float32)
		c += alpha t, two roundings, over rows of 32.`)
	f.op("MOVQ c+0(FP), DI")
	f.op("MOVQ t+8(FP), SI")
	f.op("MOVQ rows+16(FP), CX")
	f.flush()
	f.op("VBROADCASTSS alpha+24(FP), Z4")
	f.label("row")
	for h := range 2 {
		f.op("VMULPS %d(SI), Z4, Z%d", h*64, h)
		f.op("VADDPS %d(DI), Z%d, Z%d", h*64, h, h)
		f.op("VMOVUPS Z%d, %d(DI)", h, h*64)
	}
	f.op("ADDQ $128, SI")
	f.op("ADDQ $128, DI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}

func finishFile() *file {
	f := newFile()
	for _, float := range []bool{false, true} {
		f.combineRows("add", "VADDPS", float)
		f.combineRows("mul", "VMULPS", float)
		f.storeRows(float)
	}
	f.addScaled()
	for _, f.bf16 = range []bool{true, false} {
		f.epilogue()
	}
	f.bf16 = true
	return f
}

// epilogue is the passes over a block in one: a row is read once and stored once.
func (f *file) epilogue() {
	name := f.named("epilogueRows")
	f.fn(name, 8, fmt.Sprintf(`func %s(a *epilogue)
		dst = (c alpha + bias) gate + add + old, and pre is the value before the gate.`, name))
	f.op("MOVQ a+0(FP), DX")
	f.cvtConstants()
	f.op("MOVQ epilogue_c(DX), SI")
	f.op("MOVQ epilogue_rows(DX), CX")
	f.op("MOVQ epilogue_columns(DX), AX")
	f.op("KMOVD AX, K3")
	f.op("KMOVW AX, K1")
	f.op("SHRL $16, AX")
	f.op("KMOVW AX, K2")
	f.op("MOVQ epilogue_bias(DX), BX")
	f.op("MOVQ epilogue_pre(DX), R8")
	f.op("MOVQ epilogue_gate(DX), R9")
	f.op("MOVQ epilogue_add(DX), R10")
	f.op("MOVQ epilogue_old(DX), R11")
	f.op("MOVQ epilogue_dst(DX), DI")
	f.flush()
	f.op("VBROADCASTSS epilogue_alpha(DX), Z4")
	f.op("VMOVUPS (BX), Z5")
	f.op("VMOVUPS 64(BX), Z6")
	load := func(label, kind, at string, lo, hi int) {
		f.op("CMPQ epilogue_%s(DX), $0", kind)
		f.op("JNE %sNarrow", label)
		f.op("VMOVUPS.Z (%s), K1, Z%d", at, lo)
		f.op("VMOVUPS.Z 64(%s), K2, Z%d", at, hi)
		f.op("JMP %sLoaded", label)
		f.label(label + "Narrow")
		f.op("VPMOVZXWD.Z (%s), K1, Z%d", at, lo)
		f.op("VPSLLD $16, Z%d, Z%d", lo, lo)
		f.op("VPMOVZXWD.Z 32(%s), K2, Z%d", at, hi)
		f.op("VPSLLD $16, Z%d, Z%d", hi, hi)
		f.label(label + "Loaded")
	}
	store := func(label, kind, at string) { // Z2 and Z3 are lost
		f.op("CMPQ epilogue_%s(DX), $0", kind)
		f.op("JNE %sNarrow", label)
		f.op("VMOVUPS Z2, K1, (%s)", at)
		f.op("VMOVUPS Z3, K2, 64(%s)", at)
		f.op("JMP %sStored", label)
		f.label(label + "Narrow")
		f.cvt2bf16(2, 3, 2)
		f.op("VMOVDQU16 Z2, K3, (%s)", at)
		f.label(label + "Stored")
		f.op("ADDQ epilogue_%sStride(DX), %s", label, at)
	}
	both := func(op string, from int) {
		for half := range 2 {
			f.op("%s Z%d, Z%d, Z%d", op, from+half, half, half)
		}
	}
	f.op("TESTQ R9, R9")
	f.op("JEQ row")
	load("gate", "gateBF16", "R9", 8, 9)
	f.label("row")
	for half := range 2 {
		f.op("VMOVUPS %d(SI), Z%d", half*64, half)
		f.op("VMULPS Z4, Z%d, Z%d", half, half)
		f.op("VADDPS Z%d, Z%d, Z%d", 5+half, half, half)
	}
	f.op("TESTQ R8, R8")
	f.op("JEQ gated")
	f.op("VMOVAPS Z0, Z2")
	f.op("VMOVAPS Z1, Z3")
	store("pre", "preBF16", "R8")
	f.label("gated")
	f.op("TESTQ R9, R9")
	f.op("JEQ added")
	both("VMULPS", 8)
	f.label("added")
	f.op("TESTQ R10, R10")
	f.op("JEQ kept")
	load("add", "addBF16", "R10", 2, 3)
	both("VADDPS", 2)
	f.op("ADDQ epilogue_addStride(DX), R10")
	f.label("kept")
	f.op("TESTQ R11, R11")
	f.op("JEQ stored")
	f.op("VMOVUPS.Z (R11), K1, Z2")
	f.op("VMOVUPS.Z 64(R11), K2, Z3")
	both("VADDPS", 2)
	f.op("ADDQ epilogue_oldStride(DX), R11")
	f.label("stored")
	f.op("VMOVAPS Z0, Z2")
	f.op("VMOVAPS Z1, Z3")
	store("dst", "dstBF16", "DI")
	f.op("ADDQ $128, SI")
	f.op("DECQ CX")
	f.op("JNE row")
	f.ret()
}
