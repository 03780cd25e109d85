package main

import "fmt"

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

// f32Dot2 is the kernel of path AVX2 for blocks of rows x 32, in two halves.
func (f *file) f32Dot2(rows int) {
	name := fmt.Sprintf("f32AVX2Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] = one chain of FMA over k.`, name, rows))
	f.blockProlog()
	row := aRows(f, rows)
	f.label("rows")
	for half := range 2 {
		at := func(r, i int) string { return fmt.Sprintf("%d(DI)", r*128+half*64+i*32) }
		f.op("MOVQ R12, SI")
		f.op("LEAQ %d(R13), BX", half*64)
		f.op("MOVQ block_steps(AX), CX")
		f.op("CMPQ block_start(AX), $0")
		f.op("JNE load%d", half)
		for i := range rows * 2 {
			f.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
		}
		f.op("JMP one%d", half)
		f.label(fmt.Sprintf("load%d", half))
		for r := range rows {
			f.op("VMOVUPS %s, Y%d", at(r, 0), r*2)
			f.op("VMOVUPS %s, Y%d", at(r, 1), r*2+1)
		}
		f.label(fmt.Sprintf("one%d", half))
		f.op("VMOVUPS (BX), Y12")
		f.op("VMOVUPS 32(BX), Y13")
		for r := range rows {
			f.op("VBROADCASTSS %s, Y%d", row(r, 0), 14+r%2)
			f.op("VFMADD231PS Y12, Y%d, Y%d", 14+r%2, r*2)
			f.op("VFMADD231PS Y13, Y%d, Y%d", 14+r%2, r*2+1)
		}
		f.advance(rows, 4, 128)
		f.op("DECQ CX")
		f.op("JNE one%d", half)
		for r := range rows {
			f.op("VMOVUPS Y%d, %s", r*2, at(r, 0))
			f.op("VMOVUPS Y%d, %s", r*2+1, at(r, 1))
		}
	}
	f.nextRows(rows)
	f.ret()
}

// wideDot2 is the bf16 kernel of path AVX2 for blocks of rows x 32, 8 columns at a time.
func (f *file) wideDot2(rows int) {
	name := fmt.Sprintf("wideAVX2Rows%d", rows)
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[%d rows][32] += E + O for each step of 32 k.`, name, rows))
	f.blockProlog()
	f.op("VPCMPEQD Y15, Y15, Y15")
	f.op("VPSLLD $16, Y15, Y15")
	row := aRows(f, rows)
	f.label("rows")
	f.op("MOVQ $0, R10 // column")
	f.label("columns")
	f.op("MOVQ R12, SI")
	f.op("LEAQ (R13)(R10*1), BX")
	f.op("MOVQ block_steps(AX), CX")
	f.op("CMPQ block_start(AX), $0")
	f.op("JNE step")
	f.op("VXORPS Y0, Y0, Y0")
	for r := range rows {
		f.op("VMOVUPS Y0, %d(DI)(R10*1)", r*128)
	}
	f.label("step")
	for i := range rows * 2 {
		f.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	for j := range 8 {
		for part := range 2 {
			for chain := range 2 {
				if part == 0 {
					f.op("VPAND %d(BX), Y15, Y%d", j*256+chain*128, 12+chain)
				} else {
					f.op("VMOVDQU %d(BX), Y%d", j*256+chain*128, 12+chain)
					f.op("VPSLLD $16, Y%d, Y%d", 12+chain, 12+chain)
				}
			}
			for r := range rows {
				for chain := range 2 {
					f.op("VBROADCASTSS %s, Y14", row(r, j*16+part*8+chain*4))
					f.op("VFMADD231PS Y%d, Y14, Y%d", 12+chain, r*2+chain)
				}
			}
		}
	}
	for r := range rows {
		f.op("VADDPS Y%d, Y%d, Y%d", r*2+1, r*2, r*2)
		f.op("VADDPS %d(DI)(R10*1), Y%d, Y%d", r*128, r*2, r*2)
		f.op("VMOVUPS Y%d, %d(DI)(R10*1)", r*2, r*128)
	}
	f.advance(rows, 128, 2048)
	f.op("DECQ CX")
	f.op("JNE step")
	f.op("ADDQ $32, R10")
	f.op("CMPQ R10, $128")
	f.op("JNE columns")
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

// roundConstants are what round needs in Z25 to Z29.
func (f *file) roundConstants() {
	for i, c := range []string{"1", "0x7FFF", "0x400000", "0x7F800000", "0xFFFF0000"} {
		f.op("MOVL $%s, AX", c)
		f.op("VPBROADCASTD AX, Z%d", 25+i)
	}
}

// round leaves in the upper halves of Z's dwords its numbers as bf16, to nearest even,
// denormals as zeros and NaNs quiet: what VCVTNEPS2BF16 does. It changes Z24 and K7.
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
