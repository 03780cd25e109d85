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

// bf16Dot is the kernel of path BF16 for blocks of rows x 32, or of rows x 16 where
// the other half of the panel is not wanted. The last step may have fewer than its
// eight groups of four k: what lacks is zeros, which turn a sum of -0 into +0.
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
	if halves == 2 { // loads are what a narrow kernel is short of
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
