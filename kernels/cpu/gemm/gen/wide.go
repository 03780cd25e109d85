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
