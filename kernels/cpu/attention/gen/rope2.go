package main

// rope2 turns the heads of one token on path AVX2; pairs are a multiple of eight. Registers 0 and 1 are the pairs'
// elements, 2 and 3 products, 6 and 7 cosines and sines, 8 the sign; round2 takes 4 and 5.
func (f *file) rope2(name string, halves, float bool) {
	f.fn(name, 8, "func "+name+"(t *turning)\nRope of the heads of one token; pairs are a multiple of eight.")
	f.op("MOVQ t+0(FP), BX")
	f.op("VBROADCASTSS turning_sign(BX), Y8")
	f.op("MOVQ turning_x(BX), SI")
	f.op("MOVQ turning_y(BX), DI")
	f.op("MOVQ turning_heads(BX), DX")
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
	step := 4 // pairs
	if halves {
		step = 8
		f.halves2(float)
	} else {
		f.interleaved2(float)
	}
	f.op("ADDQ $%d, R8", 8*size)
	f.op("ADDQ $%d, R9", 8*size)
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

// halves2 turns eight pairs whose elements lie half a head apart.
func (f *file) halves2(float bool) {
	f.op("VMOVUPS (R10), Y6")
	f.op("VMOVUPS (R11), Y7")
	f.op("VXORPS Y8, Y7, Y7")
	f.load2("(R8)", 0, float)
	f.load2("(R8)(R13*1)", 1, float)
	f.op("VMULPS Y7, Y1, Y2")
	f.op("VMULPS Y7, Y0, Y3")
	f.op("VFMSUB213PS Y2, Y6, Y0")
	f.op("VFMADD213PS Y3, Y6, Y1")
	f.store2(0, "(R9)", float)
	f.store2(1, "(R9)(R13*1)", float)
}

// interleaved2 turns four pairs whose elements are neighbours.
func (f *file) interleaved2(float bool) {
	f.twice2("(R10)", 6)
	f.twice2("(R11)", 7)
	f.op("VXORPS Y8, Y7, Y7")
	f.load2("(R8)", 0, float)
	f.op("VPERMILPS $0xB1, Y0, Y2")
	f.op("VMULPS Y7, Y2, Y2")
	f.op("VFMADDSUB213PS Y2, Y6, Y0")
	f.store2(0, "(R9)", float)
}

// twice2 is four numbers, each two times.
func (f *file) twice2(at string, y int) {
	f.op("VPMOVZXDQ %s, Y%d", at, y)
	f.op("VMOVSLDUP Y%d, Y%d", y, y)
}

// load2 is eight elements.
func (f *file) load2(at string, y int, float bool) {
	if float {
		f.op("VMOVUPS %s, Y%d", at, y)
		return
	}
	f.op("VPMOVZXWD %s, Y%d", at, y)
	f.op("VPSLLD $16, Y%d, Y%d", y, y)
}

// store2 writes eight elements.
func (f *file) store2(y int, at string, float bool) {
	if float {
		f.op("VMOVUPS Y%d, %s", y, at)
		return
	}
	f.round2(y)
	f.op("VPSRLD $16, Y%d, Y%d", y, y)
	f.op("VEXTRACTI128 $1, Y%d, X4", y)
	f.op("VPACKUSDW X4, X%d, X%d", y, y)
	f.op("VMOVDQU X%d, %s", y, at)
}
