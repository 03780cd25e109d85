package main

// rope turns the heads of one token: registers 0 and 1 a pair's elements, 4 and 5
// products, 6 and 7 cosines and sines, 28 the sign, 29 to 31 rounding.
func (f *file) rope(name string, halves, float bool) {
	f.fn(name, 8, "func "+name+"(t *turning)\nRope of the heads of one token.")
	f.op("MOVQ t+0(FP), BX")
	f.op("VPBROADCASTD turning_sign(BX), Z28")
	for i, x := range []string{"0x7FFF", "1", "0x400000"} {
		f.op("MOVL $%s, AX", x)
		f.op("VPBROADCASTD AX, Z%d", 29+i)
	}
	f.op("MOVQ turning_x(BX), SI")
	f.op("MOVQ turning_y(BX), DI")
	f.op("MOVQ turning_heads(BX), DX")
	step := 8 // pairs
	if halves {
		step = 16
	} else {
		f.op("VMOVDQU32 twice<>(SB), Z27")
	}
	size := map[bool]int{false: 2, true: 4}[float]
	f.label("head")
	f.op("MOVQ SI, R8")
	f.op("MOVQ DI, R9")
	f.op("MOVQ turning_cos(BX), R10")
	f.op("MOVQ turning_sin(BX), R11")
	f.op("MOVQ turning_pairs(BX), R12")
	f.op("MOVQ R12, R13")
	f.op("IMUL3Q $%d, R13, R13 // bytes to the other half", size)
	f.label("step")
	f.op("MOVQ $%d, CX", step)
	f.op("CMPQ R12, CX")
	f.op("CMOVQLT R12, CX")
	f.op("MOVL $1, AX")
	f.op("SHLL CX, AX")
	f.op("DECL AX")
	f.op("KMOVW AX, K2")
	if halves {
		f.op("KMOVW AX, K1")
	} else {
		f.op("ADDQ CX, CX")
		f.op("MOVL $1, AX")
		f.op("SHLL CX, AX")
		f.op("DECL AX")
		f.op("KMOVW AX, K1")
	}
	load := func(at string, z int) {
		if float {
			f.op("VMOVUPS.Z %s, K1, Z%d", at, z)
			return
		}
		f.op("VPMOVZXWD.Z %s, K1, Z%d", at, z)
		f.op("VPSLLD $16, Z%d, Z%d", z, z)
	}
	store := func(z int, at string) {
		if float {
			f.op("VMOVUPS Z%d, K1, %s", z, at)
			return
		}
		f.round(z, 8)
		f.op("VPSRLD $16, Z%d, Z%d", z, z)
		f.op("VPMOVDW Z%d, K1, %s", z, at)
	}
	f.op("VMOVUPS.Z (R10), K2, Z6")
	f.op("VMOVUPS.Z (R11), K2, Z7")
	f.op("VPXORD Z28, Z7, Z7")
	load("(R8)", 0)
	if halves {
		load("(R8)(R13*1)", 1)
		f.op("VMULPS Z7, Z1, Z4")
		f.op("VMULPS Z7, Z0, Z5")
		f.op("VFMSUB213PS Z4, Z6, Z0")
		f.op("VFMADD213PS Z5, Z6, Z1")
		store(0, "(R9)")
		store(1, "(R9)(R13*1)")
	} else {
		f.op("VPERMPS Z6, Z27, Z6")
		f.op("VPERMPS Z7, Z27, Z7")
		f.op("VPERMILPS $0xB1, Z0, Z4")
		f.op("VMULPS Z7, Z4, Z4")
		f.op("VFMADDSUB213PS Z4, Z6, Z0")
		store(0, "(R9)")
	}
	f.op("ADDQ $%d, R8", 16*size)
	f.op("ADDQ $%d, R9", 16*size)
	f.op("ADDQ $%d, R10", 4*step)
	f.op("ADDQ $%d, R11", 4*step)
	f.op("SUBQ $%d, R12", step)
	f.op("JGT step")
	f.op("ADDQ turning_xStride(BX), SI")
	f.op("ADDQ turning_yStride(BX), DI")
	f.op("DECQ DX")
	f.op("JNE head")
	f.ret()
}

func ropeFile() *file {
	f := newFile(false)
	var w []int
	for i := range 16 {
		w = append(w, i/2, 0)
	}
	f.words("twice", w)
	f.rope("ropeInterleavedF32", false, true)
	f.rope("ropeInterleavedBF16", false, false)
	f.rope("ropeHalvesF32", true, true)
	f.rope("ropeHalvesBF16", true, false)
	return f
}
