package main

import "fmt"

// patch compares 8 x 8 bytes with those between pixels of another picture, a row at a time.
// The lower halves of Y12 to Y15 hold four lanes of the four sums.
func (e *emitter) patch() {
	e.text("patchAVX2", "sum *float32, a, b *uint8, gx, gy *int16, strideA, strideB int, w *float32", 64)
	for i, r := range []string{"DI", "SI", "DX", "R8", "R9", "R10", "R11", "BX"} {
		e.op("MOVQ", []string{"sum", "a", "b", "gx", "gy", "strideA", "strideB", "w"}[i]+fmt.Sprintf("+%d(FP)", 8*i), r)
	}
	bytes := func(from, to string) {
		e.op("VPMOVZXBD", from, to)
		e.op("VCVTDQ2PS", to, to)
	}
	for i := range 4 {
		e.op("VBROADCASTSS", fmt.Sprintf("%d(BX)", 4*i), y(8+i))
		e.op("VXORPS", y(12+i), y(12+i), y(12+i))
	}
	bytes("(DX)", "Y0")
	bytes("1(DX)", "Y1")
	e.op("MOVQ", "$8", "CX")
	e.label("row")
	e.op("ADDQ", "R11", "DX")
	bytes("(DX)", "Y2")
	bytes("1(DX)", "Y3")
	e.op("VMULPS", "Y0", "Y8", "Y4")
	for i := 1; i < 4; i++ {
		e.op("VMULPS", y(i), y(8+i), "Y5")
		e.op("VADDPS", "Y5", "Y4", "Y4")
	}
	bytes("(SI)", "Y5")
	e.op("VSUBPS", "Y5", "Y4", "Y4")
	// add sums the halves of a row of eight.
	add := func(row int, to string) {
		e.op("VEXTRACTF128", "$1", y(row), "X6")
		e.op("VADDPS", "X6", x(row), "X6")
		e.op("VADDPS", "X6", to, to)
	}
	add(4, "X12")
	e.op("VMULPS", "Y4", "Y4", "Y5")
	add(5, "X13")
	for i, r := range []string{"R8", "R9"} {
		e.op("VPMOVSXWD", "("+r+")", "Y5")
		e.op("VCVTDQ2PS", "Y5", "Y5")
		e.op("VMULPS", "Y5", "Y4", "Y5")
		add(5, x(14+i))
		e.op("LEAQ", "("+r+")(R10*2)", r)
	}
	e.op("VMOVAPS", "Y2", "Y0")
	e.op("VMOVAPS", "Y3", "Y1")
	e.op("ADDQ", "R10", "SI")
	e.op("DECQ", "CX")
	e.op("JNE", "row")
	for i := range 4 {
		sum := x(12 + i)
		e.op("VPSRLDQ", "$8", sum, "X0")
		e.op("VADDPS", "X0", sum, sum)
		e.op("VPSRLDQ", "$4", sum, "X0")
		e.op("VADDSS", "X0", sum, sum)
		e.op("VMOVSS", sum, fmt.Sprintf("%d(DI)", 4*i))
	}
	e.end()
}
