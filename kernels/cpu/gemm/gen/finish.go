package main

import "fmt"

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
	return f
}
