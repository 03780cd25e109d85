package main

import "fmt"

// rows are the operands of a kernel whose argument is a struct of rows and numbers. Its methods
// spell the same work for AVX2, eight pixels at a time (the argument in BX, CX counts pixels), and
// for NEON, four at a time (R0, and R2 is the offset in a row; V16 and V17 are scratch).
type rows struct {
	*emitter
	of string // the struct
}

// loop begins a kernel over rows as long as the one that field i holds.
func (e *emitter) loop(name, of, field string, i int) rows {
	r := rows{e, of}
	if e.arm != nil {
		e.arm.Fn(name+"NEON", 0, 8, fmt.Sprintf("func %sNEON(a *%s)", name, of))
		e.arm.Op("MOVD a+0(FP), R0")
		e.arm.Op("MOVD %s_%s+%d(R0), R1", of, field, 24*i+8)
		e.arm.Op("MOVD ZR, R2")
		e.arm.Label("loop")
		return r
	}
	e.text(name+"AVX2", "a *"+of, 8)
	e.op("MOVQ", "a+0(FP)", "BX")
	e.op("MOVQ", fmt.Sprintf("%s_%s+%d(BX)", of, field, 24*i+8), "DX")
	e.op("XORQ", "CX", "CX")
	e.label("loop")
	return r
}

func (r rows) next() {
	if r.arm != nil {
		r.arm.Op("ADD $16, R2")
		r.arm.Op("SUBS $4, R1")
		r.arm.Op("BGT loop")
		r.arm.Op("RET")
		return
	}
	r.op("ADDQ", "$8", "CX")
	r.op("CMPQ", "CX", "DX")
	r.op("JLT", "loop")
	r.end()
}

// at is the pixels of a row; it holds until the next call.
func (r rows) at(field string, i int) string {
	if r.arm != nil {
		r.arm.Op("MOVD %s_%s+%d(R0), R3", r.of, field, 24*i)
		r.arm.Op("ADD R2, R3")
		return "(R3)"
	}
	r.op("MOVQ", fmt.Sprintf("%s_%s+%d(BX)", r.of, field, 24*i), "AX")
	return "(AX)(CX*4)"
}

func (r rows) load(field string, i, to int) {
	at := r.at(field, i)
	if r.arm != nil {
		r.arm.Op("FMOVQ %s, F%d", at, to)
		return
	}
	r.op("VMOVUPS", at, y(to))
}

func (r rows) store(field string, i, from int) {
	at := r.at(field, i)
	if r.arm != nil {
		r.arm.Op("FMOVQ F%d, %s", from, at)
		return
	}
	r.op("VMOVUPS", y(from), at)
}

func (r rows) number(field string, to int) {
	if r.arm != nil {
		r.arm.Op("ADD $%s_%s, R0, R3", r.of, field)
		r.arm.LD1R(to, 3)
		return
	}
	r.op("VBROADCASTSS", fmt.Sprintf("%s_%s(BX)", r.of, field), y(to))
}

// Arithmetic on registers: to = a op b.
func (r rows) add(a, b, to int) { r.do("VADDPS", a, b, to) }
func (r rows) sub(a, b, to int) { r.do("VSUBPS", a, b, to) }
func (r rows) mul(a, b, to int) { r.do("VMULPS", a, b, to) }
func (r rows) div(a, b, to int) { r.do("VDIVPS", a, b, to) }

func (r rows) do(inst string, a, b, to int) {
	if r.arm == nil {
		r.op(inst, y(b), y(a), y(to))
		return
	}
	map[string]func(d, n, m int){"VADDPS": r.arm.FADD, "VSUBPS": r.arm.FSUB, "VMULPS": r.arm.FMUL, "VDIVPS": r.arm.FDIV}[inst](to, a, b)
}

func (r rows) root(a, to int) {
	if r.arm != nil {
		r.arm.FSQRT(to, a)
		return
	}
	r.op("VSQRTPS", y(a), y(to))
}

// pick is a where m is negative, else b.
func (r rows) pick(m, a, b, to int) {
	if r.arm != nil {
		r.arm.CMLT0(16, m)
		r.arm.BSL(16, a, b)
		r.arm.MOV(to, 16)
		return
	}
	r.op("VBLENDVPS", y(m), y(a), y(b), y(to))
}

// Arithmetic with a row of memory.
func (r rows) timesRow(a int, field string, i, to int) { r.withRow("VMULPS", a, field, i, to) }
func (r rows) plusRow(a int, field string, i int)      { r.withRow("VADDPS", a, field, i, a) }
func (r rows) overRow(a int, field string, i int)      { r.withRow("VDIVPS", a, field, i, a) }

func (r rows) withRow(inst string, a int, field string, i, to int) {
	if r.arm != nil {
		r.load(field, i, 17)
		r.do(inst, a, 17, to)
		return
	}
	r.op(inst, r.at(field, i), y(a), y(to))
}

// lessRow takes a row off two registers.
func (r rows) lessRow(field string, i, a, b int) {
	at := r.at(field, i)
	if r.arm != nil {
		r.arm.Op("FMOVQ %s, F17", at)
		r.arm.FSUB(a, a, 17)
		r.arm.FSUB(b, b, 17)
		return
	}
	r.op("VSUBPS", at, y(a), y(a))
	r.op("VSUBPS", at, y(b), y(b))
}

// sign is the bit of a sign in every lane, turn a register with such signs turned over.
func (r rows) sign(to int) {
	if r.arm != nil {
		r.arm.Splat(to, 1<<31)
		return
	}
	r.op("VBROADCASTSS", r.f32("sign", 0x80000000), y(to))
}

func (r rows) turn(sign, x int) {
	if r.arm != nil {
		r.arm.EOR(x, x, sign)
		return
	}
	r.op("VXORPS", y(sign), y(x), y(x))
}

// turnAll turns over a register's signs.
func (r rows) turnAll(x int) {
	if r.arm != nil {
		r.arm.FNEG(x, x)
		return
	}
	r.op("VXORPS", r.signs(), y(x), y(x))
}
