package main

import "fmt"

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

// roundingFile is what path AVX512 has of its own.
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
