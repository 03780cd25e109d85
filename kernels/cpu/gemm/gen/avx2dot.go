package main

import "fmt"

// Path AVX2: block kernels of up to 6 rows x 32 columns, one half of the panel (R10) after
// the other. Twelve registers hold sums. The kernels bring near the next rows of A and what
// comes after the panel: without that, products that do not fit into L2 run at half the speed.

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
