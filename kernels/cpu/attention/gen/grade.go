package main

// Registers of grade are those of weigh, but 16 and 17 Delta, 18 and 19 -LSE, and the
// scale in 26 or 28; Z28 orders lines of bf16 where the path has them.

// tableOfPairs is the order in which a product takes the words of 16 bytes of A.
func (f *file) tableOfPairs() {
	f.words("pairs", []int{0x0504, 0x0100, 0x0706, 0x0302, 0x0d0c, 0x0908, 0x0f0e, 0x0b0a})
}

func scaleRegister(full bool) int {
	if full {
		return 28
	}
	return 26
}

// grade is the pass between the products of the backward.
func (f *file) grade(name string, full bool) {
	f.fn(name, 8, "func "+name+"(x *grading)\ngrading.run for 32 queries at once.")
	f.op("MOVQ x+0(FP), BX")
	f.constants(full)
	if f.bf16 {
		f.op("VBROADCASTI32X4 pairs<>(SB), Z28")
	}
	f.op("VBROADCASTSS grading_c(BX), Z%d", factor)
	f.op("VBROADCASTSS grading_scale(BX), Z%d", scaleRegister(full))
	for i := range 2 {
		f.op("VMOVUPS grading_delta+%d(BX), Z%d", i*64, sums+i)
		f.op("VMOVUPS grading_shift+%d(BX), Z%d", i*64, maxima+i)
	}
	f.op("MOVQ grading_s(BX), SI")
	f.op("MOVQ grading_g(BX), DX")
	f.op("MOVQ grading_panel(BX), DI")
	f.op("MOVQ grading_p(BX), R8")
	f.op("MOVQ grading_d(BX), R9")
	f.op("MOVQ grading_keys(BX), CX")
	f.byFours(func(rows int) { f.gradeRows(full, rows) }, "pad", "tailed",
		"ADDQ $512, SI", "ADDQ $512, DX", "ADDQ $256, DI", "ADDQ $256, R8", "ADDQ $256, R9")
	f.op("ADDQ $256, DI")
	f.label("pad")
	f.padPanel(full, "grading_keys")
	f.ret()
}

// gradeRows makes P and dS of up to four rows.
func (f *file) gradeRows(full bool, rows int) {
	for first := 0; first < 2*rows; first += 4 {
		var x []int
		for i := first; i < min(first+4, 2*rows); i++ {
			x = append(x, i)
			f.op("VMOVUPS %d(SI), Z%d", i*64, i)
			f.op("VFMADD213PS Z%d, Z%d, Z%d", maxima+i%2, factor, i)
		}
		f.exp2(full, x...)
		for _, i := range x {
			f.op("VMOVUPS %d(DX), Z%d", i*64, 8+i%4)
			f.op("VSUBPS Z%d, Z%d, Z%d", sums+i%2, 8+i%4, 8+i%4)
			f.op("VMULPS Z%d, Z%d, Z%d", 8+i%4, i, 8+i%4)
			f.op("VMULPS Z%d, Z%d, Z%d", scaleRegister(full), 8+i%4, 8+i%4)
		}
		f.lines(full, x, x[0], "R8", "SI")
		for _, i := range x {
			f.op("VMOVAPS Z%d, Z%d", 8+i%4, i)
		}
		f.lines(full, x, x[0], "R9", "DX")
	}
	if full {
		return
	}
	for i := 2 * rows; i < 8; i++ {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.panelRows(0)
}

// lines writes rows of A from registers x: lined to memory at line, or fp32 to memory
// at flat.
func (f *file) lines(full bool, x []int, first int, line, flat string) {
	for n, i := range x {
		if f.bf16 {
			if i%2 == 0 {
				f.cvt2bf16(i, i+1, 12+n/2)
				f.op("VPSHUFB Z28, Z%d, Z%d", 12+n/2, 12+n/2)
				f.op("VMOVDQU32 Z%d, %d(%s)", 12+n/2, i/2*64, line)
			}
			continue
		}
		if !full {
			f.round(i, 12+n)
			f.op("VPANDD Z28, Z%d, Z%d", i, i)
		}
		f.op("VMOVUPS Z%d, %d(%s)", i, i*64, flat)
	}
}

// dotRows are sums of products in the 64 lanes of ref.Dot.
func (f *file) dotRows(name string, float bool) {
	f.fn(name, 56, "func "+name+"(dst, x, y unsafe.Pointer, xStride, yStride, rows, d int)\ndst[r] = x row r · y row r.")
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ x+8(FP), SI")
	f.op("MOVQ y+16(FP), DX")
	f.op("MOVQ rows+40(FP), R10")
	f.op("MOVQ d+48(FP), R11")
	f.op("MOVQ R11, CX")
	f.op("ANDQ $63, CX")
	f.op("MOVQ $1, AX")
	f.op("SHLQ CX, AX")
	f.op("DECQ AX")
	for i := range 4 {
		f.op("KMOVW AX, K%d", 1+i)
		f.op("SHRQ $16, AX")
	}
	f.op("SHRQ $6, R11")
	load := func(i int, mask string) {
		for n, p := range []string{"R8", "R9"} {
			if float {
				f.op("VMOVUPS%s %d(%s), %sZ%d", zeroing(mask), i*64, p, mask, 8+4*n+i)
			} else {
				f.op("VPMOVZXWD%s %d(%s), %sZ%d", zeroing(mask), i*32, p, mask, 8+4*n+i)
				f.op("VPSLLD $16, Z%d, Z%d", 8+4*n+i, 8+4*n+i)
			}
		}
		f.op("VFMADD231PS Z%d, Z%d, %sZ%d", 8+i, 12+i, mask, i)
	}
	f.label("row")
	f.op("MOVQ SI, R8")
	f.op("MOVQ DX, R9")
	f.op("MOVQ R11, CX")
	for i := range 4 {
		f.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	f.op("TESTQ CX, CX")
	f.op("JEQ tail")
	f.label("step")
	for i := range 4 {
		load(i, "")
	}
	size := map[bool]int{false: 128, true: 256}[float]
	f.op("ADDQ $%d, R8", size)
	f.op("ADDQ $%d, R9", size)
	f.op("DECQ CX")
	f.op("JNE step")
	f.label("tail")
	for i := range 4 {
		load(i, "K"+string(rune('1'+i))+", ")
	}
	f.op("VADDPS Z1, Z0, Z0")
	f.op("VADDPS Z3, Z2, Z2")
	f.op("VADDPS Z2, Z0, Z0")
	f.op("VEXTRACTF64X4 $1, Z0, Y1")
	f.op("VADDPS Y1, Y0, Y0")
	f.endRow()
}

// endRow writes the sum of Y0's lanes, by halves, and goes on with the next row.
func (f *file) endRow() {
	f.op("VEXTRACTF128 $1, Y0, X1")
	f.op("VADDPS X1, X0, X0")
	f.op("VMOVHLPS X0, X0, X1")
	f.op("VADDPS X1, X0, X0")
	f.op("VMOVSHDUP X0, X1")
	f.op("VADDSS X1, X0, X0")
	f.op("VMOVSS X0, (DI)")
	f.op("ADDQ $4, DI")
	f.op("ADDQ xStride+24(FP), SI")
	f.op("ADDQ yStride+32(FP), DX")
	f.op("DECQ R10")
	f.op("JNE row")
	f.ret()
}

func zeroing(mask string) string {
	if mask == "" {
		return ""
	}
	return ".Z"
}
