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

// data is a row of the refinement's equations.
func (e *emitter) data() {
	r := e.loop("data", "data", "out", 0)
	const x, yy, z, u, v = 0, 1, 2, 3, 4
	for i, from := range []int{0, 1, 2, 8, 9} {
		r.load("in", from, i)
	}
	r.number("noise", 15)
	r.mul(x, x, 5)
	r.mul(yy, yy, 6)
	r.add(5, 6, 7)
	r.add(7, 15, 7) // n
	r.mul(x, u, 8)
	r.add(z, 8, 8)
	r.mul(yy, v, 9)
	r.add(8, 9, 8)
	r.mul(8, 8, 8)
	r.div(8, 7, 8)
	r.number("small", 9)
	r.add(8, 9, 8)
	r.root(8, 8)
	r.number("delta", 9)
	r.div(9, 8, 9)
	r.div(9, 7, 9) // the weight
	r.mul(9, 5, 10)
	r.add(10, 15, 10)
	r.mul(x, yy, 11)
	r.mul(9, 11, 11)
	r.mul(9, 6, 12)
	r.add(12, 15, 12)
	r.mul(z, x, 13)
	r.mul(9, 13, 13)
	r.store("out", 3, 13)
	r.mul(z, yy, 13)
	r.mul(9, 13, 13)
	r.store("out", 4, 13)
	// Gradients: 0, 1, 2 are xx, xy, yy; 5, 6, 7 their squares.
	for i := range 3 {
		r.load("in", 3+i, i)
		r.mul(i, i, 5+i)
	}
	r.add(5, 6, 8)
	r.add(8, 15, 8) // n
	r.add(7, 6, 9)
	r.add(9, 15, 9) // m
	for i, to := range []int{15, 14} {
		r.load("in", 6+i, to)
		r.mul(i, u, 13)
		r.add(to, 13, to)
		r.mul(i+1, v, 13)
		r.add(to, 13, to)
		r.mul(to, to, to)
		r.div(to, 8+i, to)
	}
	r.add(15, 14, 15)
	r.number("small", 14)
	r.add(15, 14, 15)
	r.root(15, 15)
	r.number("gamma", 14)
	r.div(14, 15, 14) // the weight
	// sum is weight (a/n + b/m), in 15.
	sum := func(a, b int) {
		r.div(a, 8, 15)
		r.div(b, 9, 13)
		r.add(15, 13, 15)
		r.mul(14, 15, 15)
	}
	sum(5, 6)
	r.add(10, 15, 10)
	r.store("out", 0, 10)
	r.mul(0, 1, 3)
	r.mul(1, 2, 4)
	sum(3, 4)
	r.add(11, 15, 11)
	r.store("out", 1, 11)
	sum(6, 7)
	r.add(12, 15, 12)
	r.store("out", 2, 12)
	r.sign(5)
	for i := range 2 {
		r.load("in", 6, 3)
		r.load("in", 7, 4)
		r.mul(i, 3, 3)
		r.mul(i+1, 4, 4)
		sum(3, 4)
		r.load("out", 3+i, 10)
		r.turn(5, 10)
		r.sub(10, 15, 10)
		r.store("out", 3+i, 10)
	}
	r.next()
}

// weights is a row of smoothness' weights.
func (e *emitter) weights() {
	r := e.loop("weights", "weights", "out", 0)
	for i := range 6 {
		r.load("in", i, i)
	}
	for i := range 4 {
		r.sub(2+i, i%2, 2+i)
		r.mul(2+i, 2+i, 2+i)
	}
	for i := range 3 {
		r.add(2, 3+i, 2)
	}
	r.number("small", 6)
	r.add(2, 6, 2)
	r.root(2, 2)
	r.number("alpha", 6)
	r.div(6, 2, 2)
	r.store("out", 0, 2)
	r.next()
}

// smooth adds the neighbours' terms, in the order of the square's colour.
func (e *emitter) smooth() {
	r := e.loop("smooth", "smooth", "red", 0)
	r.load("red", 0, 15)
	for i := range 4 {
		r.load("weight", i, i)
		r.load("out", i, 10+i)
	}
	r.timesRow(0, "inner", 0, 0)
	// pair adds two neighbours: a's comes first on red squares.
	pair := func(a, b, ua, ub int) {
		for i, field := range []string{"u", "v"} {
			r.load(field, ua, 4+i)
			r.load(field, ub, 6+i)
			r.lessRow(field, 0, 4+i, 6+i)
		}
		for range 2 {
			r.pick(15, a, b, 8)
			r.add(10, 8, 10)
			r.add(11, 8, 11)
			for i := range 2 {
				r.pick(15, 4+i, 6+i, 9)
				r.mul(8, 9, 9)
				r.add(12+i, 9, 12+i)
			}
			r.turnAll(15) // then the other one
		}
	}
	pair(0, 1, 2, 1)
	pair(3, 2, 4, 3)
	for i := range 4 {
		r.store("out", i, 10+i)
	}
	r.next()
}

// sweep is a row of over-relaxation. The left neighbours of the next eight pixels are read
// before these are written: a load that begins within a store that is under way would wait
// for it. Theirs is the other colour, which does not change.
func (e *emitter) sweep() {
	r := e.loop("sweep", "sweep", "turn", 0)
	r.number("omega", 15)
	// On amd64 the loop begins below; "loop" itself reads the first turn's data.
	r.load("u", 1, 12)
	r.load("v", 1, 13)
	if e.arm == nil {
		e.label("turn")
	}
	for i := range 3 {
		r.load("weight", i, i)
	}
	for i, field := range []string{"u", "v"} {
		sum := 3 + i
		r.mul(1, 12+i, sum)
		for k, w := range []int{0, 2, 0} {
			r.timesRow(w, field, 2+k, 5)
			r.add(sum, 5, sum)
		}
		r.load(field, 0, 6+i)
	}
	r.load("of", 1, 8)
	r.load("turn", 0, 14)
	// The new u in 9, by the old v; the new v in 10, by the new u.
	for i, by := range []int{7, 9} {
		sum := 3 + i
		r.mul(by, 8, 5)
		r.plusRow(sum, "of", 3+i)
		r.sub(sum, 5, sum)
		r.overRow(sum, "of", 2*i)
		r.sub(sum, 6+i, sum)
		r.mul(15, sum, sum)
		r.add(6+i, sum, 9+i)
		r.pick(14, 9+i, 6+i, 9+i)
	}
	if e.arm != nil {
		r.store("u", 0, 9)
		r.store("v", 0, 10)
		r.next()
		return
	}
	r.op("ADDQ", "$8", "CX")
	r.op("CMPQ", "CX", "DX")
	r.op("JGE", "last")
	r.load("u", 1, 12)
	r.load("v", 1, 13)
	for i, field := range []string{"u", "v"} {
		r.at(field, 0)
		r.op("VMOVUPS", y(9+i), "-32(AX)(CX*4)")
	}
	r.op("JMP", "turn")
	r.label("last")
	for i, field := range []string{"u", "v"} {
		r.at(field, 0)
		r.op("VMOVUPS", y(9+i), "-32(AX)(CX*4)")
	}
	r.end()
}
