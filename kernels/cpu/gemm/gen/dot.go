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

// bf16Dot is the kernel of path BF16 for blocks of rows x 32.
func (f *file) bf16Dot(rows int) {
	name := fmt.Sprintf("bf16Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] += E + O for each step of 32 k.`, name, rows))
	f.blockProlog()
	acc := func(r, half, chain int) int { return r*4 + chain*2 + half }
	row := aRows(f, rows)
	f.startRows(rows)
	f.op("MOVQ block_start(AX), R15 // whether C holds a sum")
	f.label("step")
	for i := range rows * 4 {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	tmp := 0
	for j := range 8 {
		for i := range 4 {
			f.op("VMOVDQU32 %d(BX), Z%d", j*256+i*64, 24+i)
		}
		for r := range rows {
			for chain := range 2 {
				t := 28 + tmp%4
				tmp++
				f.op("VPBROADCASTD %s, Z%d", row(r, j*8+chain*4), t)
				for half := range 2 {
					f.dpbf16(24+chain*2+half, t, acc(r, half, chain))
				}
			}
		}
		for i := range 4 {
			f.op("PREFETCHT1 %d(R11)", (j*4+i)*64)
		}
	}
	f.advance(rows, 64, 2048)
	f.op("ADDQ block_aheadStep(AX), R11")
	each := func(do func(e, o, at int)) {
		for r := range rows {
			for half := range 2 {
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
	f.label("last")
	f.op("CMPQ block_out(AX), $0")
	f.op("JNE out")
	each(func(e, _, at int) { f.op("VMOVUPS Z%d, %d(DI)", e, at) })
	f.label("out")
	f.storeOut(rows, func(r, half int) int { return acc(r, half, 0) }, 24)
	f.nextRows(rows)
	f.ret()
}

// aRows sets the strides up and returns the addressing of A's rows: SI is row 0,
// R10 row 7, and R8, R9, R14 are 1, 3 and 5 row strides.
func aRows(f *file, rows int) func(r, disp int) string {
	if rows > 3 {
		f.op("LEAQ (R8)(R8*2), R9")
	}
	if rows > 5 {
		f.op("LEAQ (R8)(R8*4), R14")
	}
	return func(r, disp int) string {
		base := "SI"
		if r >= 7 {
			base = "R10"
			r -= 7
		}
		index := [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)", "(R14*1)", "(R9*2)"}[r]
		return fmt.Sprintf("%d(%s)%s", disp, base, index)
	}
}

// startRows points SI (and R10) at the block's first row of A, BX at the panel.
func (f *file) startRows(rows int) {
	f.label("rows")
	f.prefetchOut(rows)
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

// f32Dot is the kernel of paths AVX512 and up for blocks of rows x 32: C is held in
// registers over all k.
func (f *file) f32Dot(rows int) {
	name := fmt.Sprintf("f32Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] = one chain of FMA over k.`, name, rows))
	f.blockProlog()
	row := aRows(f, rows)
	f.startRows(rows)
	f.op("CMPQ block_start(AX), $0")
	f.op("JNE load")
	for i := range rows * 2 {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.op("JMP loaded")
	f.label("load")
	for i := range rows * 2 {
		f.op("VMOVUPS %d(DI), Z%d", i*64, i)
	}
	f.label("loaded")
	one := func(k, parity int) {
		f.op("VMOVUPS %d(BX), Z28", k*128)
		f.op("VMOVUPS %d(BX), Z29", k*128+64)
		for r := range rows {
			t := 30 + (r+parity)%2
			f.op("VBROADCASTSS %s, Z%d", row(r, k*4), t)
			f.op("VFMADD231PS Z28, Z%d, Z%d", t, r*2)
			f.op("VFMADD231PS Z29, Z%d, Z%d", t, r*2+1)
		}
	}
	f.op("SUBQ $4, CX")
	f.op("JLT tail")
	f.label("four")
	for k := range 4 {
		one(k, k*rows)
	}
	lines := prefetches(rows * 2)
	for i := range lines {
		f.op("PREFETCHT1 %d(R11)", i*64)
	}
	f.op("ADDQ block_aheadStep(AX), R11")
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
	f.op("CMPQ block_out(AX), $0")
	f.op("JNE out")
	for i := range rows * 2 {
		f.op("VMOVUPS Z%d, %d(DI)", i, i*64)
	}
	f.label("out")
	f.storeOut(rows, func(r, half int) int { return r*2 + half }, 28)
	f.nextRows(rows)
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
