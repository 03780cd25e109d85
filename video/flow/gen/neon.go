package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// Path NEON. Filters, solve, equations and patch are written here; loops over rows of pixels are described once for
// both machines (dis.go), through the methods of rows.

// argumentsNEON loads a function's arguments into R0 and on.
func argumentsNEON(w *neon.Writer, names ...string) {
	for i, n := range names {
		w.Op("MOVD %s+%d(FP), R%d", n, 8*i, i)
	}
}

// lanes are those of a register of four fp32 or two float64.
type lanesNEON struct {
	*neon.Writer
	kind
}

func (l lanesNEON) vectors() int { return 16 * l.to / 16 }

func (l lanesNEON) add(d, n, m int) {
	if l.to == 8 {
		l.FADD2(d, n, m)
	} else {
		l.FADD(d, n, m)
	}
}

func (l lanesNEON) sub(d, n, m int) { l.FSUB(d, n, m) }

func (l lanesNEON) mul(d, n, m int) {
	if l.to == 8 {
		l.FMUL2(d, n, m)
	} else {
		l.FMUL(d, n, m)
	}
}

// load reads vector j of a row, widening where needed; spread fills a register with a weight.
func (l lanesNEON) load(j int, at string, v int) {
	if l.from == l.to {
		l.Op("FMOVQ %d(%s), F%d", 16*j, at, v)
		return
	}
	l.Op("FMOVD %d(%s), F%d", 8*j, at, v)
	l.FCVTL(v, v)
}

func (l lanesNEON) spread(at int, from string, v int) {
	if l.to == 8 {
		l.Op("FMOVD %d(%s), F%d", at, from, v)
		l.Op("VDUP V%d.D[0], V%d.D2", v, v)
		return
	}
	l.Op("FMOVS %d(%s), F%d", at, from, v)
	l.DUP(v, v, 0)
}

// filterNEON is filter for this path: blocks of 16 numbers.
//
// R5 is the middle row's slice, R6 and R7 the offsets of the input and the output, R11 and R12 go
// outwards, R13 through the weights. V0 to V11 are sums, V24 on weights.
func filterNEON(w *neon.Writer, name string, three bool, k kind) {
	l := lanesNEON{w, k}
	dst, sums := fmt.Sprintf("dst *float%d", 8*k.to), 1
	if three {
		dst, sums = "dst *[]float32", 3
	}
	w.Fn(name, 0, 40, fmt.Sprintf("func %s(%s, rows *[]float%d, weights *float%d, radius, n int)",
		name, dst, 8*k.from, 8*k.to))
	argumentsNEON(w, "dst", "rows", "weights", "radius", "n")
	w.Op("MOVD $24, R5")
	w.Op("MADD R5, R1, R3, R5")
	w.Op("MOVD ZR, R6")
	w.Op("MOVD ZR, R7")
	acc := func(s, j int) int { return s*l.vectors() + j }
	w.Label("loop")
	w.Op("MOVD (R5), R10")
	w.Op("ADD R6, R10")
	for s := range sums {
		if s != 1 {
			l.spread(s*k.to, "R2", 24)
		}
		for j := range l.vectors() {
			if s == 1 {
				w.ZERO(acc(s, j))
				continue
			}
			l.load(j, "R10", 16)
			l.mul(acc(s, j), 24, 16)
		}
	}
	for _, r := range []string{"R5, R11", "R5, R12", "R2, R13", "R3, R14"} {
		w.Op("MOVD %s", r)
	}
	w.Op("CBZ R14, store")
	w.Label("pair")
	w.Op("SUB $24, R11")
	w.Op("ADD $24, R12")
	w.Op("ADD $%d, R13", sums*k.to)
	for i, r := range []string{"R10", "R15"} {
		w.Op("MOVD (R%d), %s", 11+i, r)
		w.Op("ADD R6, %s", r)
	}
	for s := range sums {
		l.spread(s*k.to, "R13", 24+s)
	}
	for j := range l.vectors() {
		l.load(j, "R10", 16)
		l.load(j, "R15", 17)
		l.add(18, 16, 17)
		if three {
			l.sub(19, 17, 16) // after - before
		}
		for s := range sums {
			from := 18
			if s == 1 {
				from = 19
			}
			l.mul(20, from, 24+s)
			l.add(acc(s, j), acc(s, j), 20)
		}
	}
	w.Op("SUBS $1, R14")
	w.Op("BNE pair")
	w.Label("store")
	for s := range sums {
		w.Op("MOVD R0, R10")
		if three {
			w.Op("MOVD %d(R0), R10", 24*s)
		}
		w.Op("ADD R7, R10")
		for j := range l.vectors() {
			w.Op("FMOVQ F%d, %d(R10)", acc(s, j), 16*j)
		}
	}
	w.Op("ADD $%d, R6", 16*k.from)
	w.Op("ADD $%d, R7", 16*k.to)
	w.Op("SUBS $16, R4")
	w.Op("BGT loop")
	w.Op("RET")
}

// solveNEON is solve, two pixels at a time.
func solveNEON(w *neon.Writer) {
	w.Fn("solveNEON", 0, 32, "func solveNEON(x, y *float32, sums *[]float64, n int)")
	argumentsNEON(w, "x", "y", "sums", "n")
	for i := range 5 {
		w.Op("MOVD %d(R2), R%d", 24*i, 5+i)
	}
	for i, bits := range []string{"0x3f50624dd2f1a9fc", "0x3ff0000000000000"} { // a thousandth, and 1
		w.Op("MOVD $%s, R26", bits)
		w.Op("VDUP R26, V%d.D2", 14+i)
	}
	w.Label("loop")
	for i := range 5 {
		w.Op("FMOVQ.P 16(R%d), F%d", 5+i, i)
	}
	minus := func(a, b, c, d, to int) { // ab - cd
		w.FMUL2(to, a, b)
		w.FMUL2(8, c, d)
		w.FSUB2(to, to, 8)
	}
	minus(0, 2, 1, 1, 5)
	w.FADD2(5, 5, 14)
	w.FDIV2(5, 15, 5)
	minus(0, 4, 1, 3, 6)
	minus(2, 3, 1, 4, 7)
	for i := range 2 {
		w.FMUL2(6+i, 6+i, 5)
		w.FCVTN(6+i, 6+i)
		w.Op("FMOVD.P F%d, 8(R%d)", 6+i, i)
	}
	w.Op("SUBS $2, R3")
	w.Op("BGT loop")
	w.Op("RET")
}

// equationsNEON is equations, four pixels at a time. Lanes that leave the second frame read its
// first pixel instead, and take nothing of it.
//
// R0 the argument, R1 the pixels left, R2 the offset in rows, R3 the stride, R4 to R7 and R8 to
// R11 where the lanes' upper and lower pixels are; V15 x of the lanes, V6 the mask.
func equationsNEON(w *neon.Writer) {
	w.Fn("equationsNEON", 0, 8, "func equationsNEON(e *equations)")
	w.Op("MOVD e+0(FP), R0")
	w.Op("MOVD equations_x+8(R0), R1")
	w.Op("MOVD ZR, R2")
	w.Op("MOVD equations_stride(R0), R3")
	w.Get(15, w.Lanes("steps", 0, 0x3f800000, 0x40000000, 0x40400000))
	row := func(field string, i, v int) {
		w.Op("MOVD equations_%s+%d(R0), R12", field, 24*i)
		w.Op("ADD R2, R12")
		w.Op("FMOVQ (R12), F%d", v)
	}
	number := func(field string, v int) {
		w.Op("ADD $equations_%s, R0, R12", field)
		w.LD1R(v, 12)
	}
	w.Label("loop")
	row("x", 0, 0)
	row("y", 0, 1)
	w.FADD(2, 15, 0)
	number("row", 3)
	w.FADD(3, 3, 1)
	w.FRINTM(4, 2)
	w.FRINTM(5, 3)
	w.ZERO(7)
	w.FCMGE(6, 4, 7)
	w.FCMGE(8, 5, 7)
	w.AND(6, 6, 8)
	for i, side := range []string{"width", "height"} {
		number(side, 7)
		w.FCMGT(8, 7, 4+i)
		w.AND(6, 6, 8)
	}
	w.FSUB(2, 2, 4)
	w.FSUB(3, 3, 5)
	w.FCVTZS(4, 4)
	w.FCVTZS(5, 5)
	w.Op("VDUP R3, V7.S4")
	w.MUL(5, 5, 7)
	w.ADD(5, 5, 4)
	w.ADD(7, 5, 7)
	w.AND(5, 5, 6)
	w.AND(7, 7, 6)
	for i := range 4 {
		w.Op("VMOV V5.S[%d], R%d", i, 4+i)
		w.Op("VMOV V7.S[%d], R%d", i, 8+i)
	}
	w.SplatF(13, 1)
	w.FSUB(7, 13, 2)
	w.FSUB(8, 13, 3)
	w.FMUL(9, 7, 8)
	w.FMUL(10, 2, 8)
	w.FMUL(11, 7, 3)
	w.FMUL(12, 2, 3)
	sums := []int{2, 3, 4, 7, 8}
	for k, s := range sums {
		w.Op("MOVD equations_b+%d(R0), R12", 24*k)
		for below := range 2 {
			for i := range 4 {
				w.Op("ADD R%d<<2, R12, R13", 4+4*below+i)
				w.Op("VLD1 (R13), V%d.D[%d]", 16+i/2, i%2)
			}
			w.UZP1(18+2*below, 16, 17)
			w.UZP2(19+2*below, 16, 17)
		}
		w.FMUL(s, 18, 9)
		for corner := 1; corner < 4; corner++ {
			w.FMUL(16, 18+corner, 9+corner)
			w.FADD(s, s, 16)
		}
	}
	w.AND(2, 2, 6)
	w.AND(3, 3, 6)
	w.SplatF(13, 0.5)
	w.SplatF(14, 0.25)
	for i, s := range sums[2:] { // yy, xx, xy
		row("a", 2+i, 9)
		w.FADD(s, 9, s)
		if i < 2 {
			w.FMUL(s, s, 13)
		} else {
			w.FMUL(s, s, 14)
			w.FMUL(9, 9, 13)
		}
		w.BIF(s, 9, 6)
	}
	for i, s := range sums[:2] { // y, x
		row("a", i, 9)
		w.FSUB(s, 9, s)
		w.FMUL(s, s, 13)
	}
	add := func(a, b, to int) {
		w.FMUL(9, a, b)
		w.FADD(to, to, 9)
	}
	add(4, 1, 2)
	add(8, 0, 2)
	add(8, 1, 3)
	add(7, 0, 3)
	row("edge", 0, 9)
	for _, s := range sums {
		w.FMUL(s, s, 9)
	}
	store := func(i, v int) {
		w.Op("MOVD equations_out+%d(R0), R12", 24*i)
		w.Op("ADD R2, R12")
		w.Op("FMOVQ F%d, (R12)", v)
	}
	both := func(i, a, b, c, d int) { // ab + cd
		w.FMUL(9, a, b)
		w.FMUL(10, c, d)
		w.FADD(9, 9, 10)
		store(i, 9)
	}
	both(0, 4, 4, 8, 8)
	w.FADD(9, 4, 7)
	w.FMUL(9, 9, 8)
	store(1, 9)
	both(2, 7, 7, 8, 8)
	both(3, 4, 2, 8, 3)
	both(4, 8, 2, 7, 3)
	w.SplatF(9, 4)
	w.FADD(15, 15, 9)
	w.Op("ADD $16, R2")
	w.Op("SUBS $4, R1")
	w.Op("BGT loop")
	w.Op("RET")
}

// patchNEON is patch8. A row of eight is two registers; V20 to V23 are lanes of the four sums.
func patchNEON(w *neon.Writer) {
	w.Fn("patchNEON", 0, 64, "func patchNEON(sum *float32, a, b *uint8, gx, gy *int16, strideA, strideB int, w *float32)")
	argumentsNEON(w, "sum", "a", "b", "gx", "gy", "strideA", "strideB", "w")
	bytes := func(at string, offset, v int) { // eight of them, in v and v+1
		w.Op("FMOVD %d(%s), F%d", offset, at, v+1)
		w.UXTL8(v+1, v+1)
		w.UXTL16(v, v+1)
		w.UXTL216(v+1, v+1)
		w.UCVTF(v, v)
		w.UCVTF(v+1, v+1)
	}
	for i := range 4 {
		w.Op("FMOVS %d(R7), F%d", 4*i, 24+i)
		w.DUP(24+i, 24+i, 0)
		w.ZERO(20 + i)
	}
	bytes("R2", 0, 0)
	bytes("R2", 1, 2)
	w.Op("MOVD $8, R8")
	w.Label("row")
	w.Op("ADD R6, R2")
	bytes("R2", 0, 4)
	bytes("R2", 1, 6)
	bytes("R1", 0, 8)
	for h := range 2 {
		w.FMUL(10+h, h, 24)
		for i := 1; i < 4; i++ {
			w.FMUL(12, 2*i+h, 24+i)
			w.FADD(10+h, 10+h, 12)
		}
		w.FSUB(10+h, 10+h, 8+h)
	}
	add := func(l, r, to int) { // the halves of a row of eight
		w.FADD(12, l, r)
		w.FADD(to, to, 12)
	}
	add(10, 11, 20)
	w.FMUL(13, 10, 10)
	w.FMUL(14, 11, 11)
	add(13, 14, 21)
	for i, r := range []string{"R3", "R4"} {
		w.Op("FMOVQ (%s), F15", r)
		w.SXTL16(13, 15)
		w.SXTL216(14, 15)
		w.SCVTF(13, 13)
		w.SCVTF(14, 14)
		w.FMUL(13, 13, 10)
		w.FMUL(14, 14, 11)
		add(13, 14, 22+i)
		w.Op("ADD R5<<1, %s", r)
	}
	for i := range 4 {
		w.MOV(i, 4+i)
	}
	w.Op("ADD R5, R1")
	w.Op("SUBS $1, R8")
	w.Op("BNE row")
	for i := range 4 {
		s := 20 + i
		w.EXT(0, s, s, 8)
		w.FADD(s, s, 0)
		w.DUP(0, s, 1)
		w.FADD(s, s, 0)
		w.Op("FMOVS F%d, %d(R0)", s, 4*i)
	}
	w.Op("RET")
}

func assemblyNEON() []byte {
	w := neon.New("video/flow/gen")
	filterNEON(w, "symmetricNEON", false, single)
	filterNEON(w, "expandNEON", true, single)
	filterNEON(w, "windowNEON", false, widened)
	filterNEON(w, "acrossNEON", false, double)
	equationsNEON(w)
	solveNEON(w)
	patchNEON(w)
	e := &emitter{arm: w}
	e.data()
	e.weights()
	e.smooth()
	e.sweep()
	return w.Text()
}
