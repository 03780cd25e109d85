package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// Path NEON: the passes between products, 16 of 32 queries at a time. They read scores and write to memory of its
// own, so that plain Go can do over flushed results (package neon).
//
// Registers: V0 to V3 four vectors of scores, V4 to V7 of dO·V, V8 to V12 scratch, V13 the factor c, V14 the scale or
// 1, V15 the mask of bf16, V16 to V19 -m or -LSE, V20 to V23 sums or Delta, V24 on the polynomial and the constants
// of rounding.
type neonPass struct {
	*neon.Writer
	full bool
	exp2 neon.Exp2
	bf16 neon.Rounding
}

func newNEONPass(w *neon.Writer, full bool) neonPass {
	p := neonPass{Writer: w, full: full}
	p.exp2 = neon.Exp2{Coefficients: coefficients(full), Short: !full, First: 24, N: 8, F: 9, P: 10, Q: 11}
	p.exp2.Least = 24 + len(p.exp2.Coefficients)
	if full {
		p.exp2.Bias = 15
	} else {
		p.exp2.Bias, p.bf16 = p.exp2.Least+1, neon.Rounding{Most: p.exp2.Least + 2, T: 8, U: 9}
	}
	return p
}

func (p neonPass) name(verb string) string {
	if p.full {
		return verb + "F32NEON"
	}
	return verb + "BF16NEON"
}

const maskNEON = 15

// constants loads the polynomial, c, and the constants of rounding.
func (p neonPass) constants(of string) {
	p.exp2.Constants(p.Writer)
	if !p.full {
		p.Splat(p.bf16.Most, 0x7fff)
		p.Splat(maskNEON, 0xffff0000)
	}
	p.Op("ADD $%s_c, R0, R26", of)
	p.LD1R(13, 26)
}

// halves runs f for both halves of the queries, or for the first alone. R7 is the offset of the half's numbers in
// rows, R1 and on are where the passes' memory begins.
func (p neonPass) halves(of string, f func()) {
	p.Op("MOVD ZR, R7")
	p.Label("half")
	f()
	p.Op("ADD $64, R7")
	p.Op("MOVD %s_width(R0), R8", of)
	p.Op("CMP R8, R7")
	p.Op("BLT half")
}

// four loads or stores 16 numbers of a struct's row of 32.
func (p neonPass) four(inst, field string, v int) {
	p.Op("ADD $%s, R0, R26", field)
	p.Op("ADD R7, R26")
	for i := 0; i < 4; i += 2 {
		if inst == "FLDPQ" {
			p.Op("FLDPQ %d(R26), (F%d, F%d)", i*16, v+i, v+i+1)
		} else {
			p.Op("FSTPQ (F%d, F%d), %d(R26)", v+i, v+i+1, i*16)
		}
	}
}

// weigh is weighing.run but for the rescaling of O, which it asks for by changed.
func (p neonPass) weigh() {
	name := p.name("weigh")
	p.Fn(name, 0, 8, fmt.Sprintf("func %s(w *weighing)\nweighing.run without the rescaling of O.", name))
	p.Op("MOVD w+0(FP), R0")
	p.Flush()
	p.constants("weighing")
	p.SplatF(14, 1)
	p.halves("weighing", func() {
		p.Op("MOVD weighing_s(R0), R1")
		p.Op("MOVD weighing_keys(R0), R3")
		p.Op("ADD R7, R1")
		p.Op("MOVD R1, R4")
		for i := range 4 {
			p.Splat(4+i, 0xff800000)
		}
		p.Label("max")
		for i := 0; i < 4; i += 2 {
			p.Op("FLDPQ %d(R4), (F%d, F%d)", i*16, i, i+1)
			p.FMAXNM(4+i, 4+i, i)
			p.FMAXNM(5+i, 5+i, i+1)
		}
		p.Op("ADD $128, R4")
		p.Op("SUBS $1, R3")
		p.Op("BNE max")
		p.next()
		p.Op("MOVD weighing_p(R0), R2")
		p.Op("MOVD weighing_keys(R0), R3")
		p.Op("ADD R7, R2")
		p.Label("weigh")
		p.shifted("R1")
		for i := range 4 {
			p.exp2.Power(p.Writer, i)
			p.FADD(20+i, 20+i, i)
			if !p.full {
				p.bf16.RoundResult(p.Writer, i, maskNEON)
			}
		}
		for i := 0; i < 4; i += 2 {
			p.Op("FSTPQ (F%d, F%d), %d(R2)", i, i+1, i*16)
		}
		p.Op("ADD $128, R1")
		p.Op("ADD $128, R2")
		p.Op("SUBS $1, R3")
		p.Op("BNE weigh")
		p.pad("weighing", "R2")
		p.four("FSTPQ", "weighing_l", 20)
	})
	p.Ret("weighing_flushed(R0)")
}

// next is the step of m, r and l: m' is left negated in 16 to 19, l in 20 to 23.
func (p neonPass) next() {
	p.four("FLDPQ", "weighing_m", 0)
	for i := range 4 {
		p.FMUL(4+i, 4+i, 13)
		p.FMAXNM(16+i, i, 4+i)
	}
	p.four("FSTPQ", "weighing_m", 16)
	p.ZERO(12)
	for i := range 4 {
		p.FCMEQ(20+i, i, 16+i) // where m stays, r is 1
		p.ORN(12, 12, 20+i)
		p.FSUB(4+i, i, 16+i)
		p.exp2.Power(p.Writer, 4+i)
		p.BIT(4+i, 14, 20+i)
	}
	p.four("FSTPQ", "weighing_r", 4)
	p.UMAXV(12, 12)
	p.Op("FMOVS F12, R26")
	p.Op("CBZ R26, same")
	p.Op("MOVD R26, weighing_changed(R0)")
	p.Label("same")
	p.four("FLDPQ", "weighing_l", 20)
	p.Splat(12, 0xff800000)
	for i := range 4 {
		p.FMUL(20+i, 20+i, 4+i)
		p.CMEQ(8, 16+i, 12) // where no key is seen yet, 0 stands in m's place
		p.BIC(16+i, 16+i, 8)
		p.FNEG(16+i, 16+i)
	}
}

// shifted is fma(score, c, shift) of four vectors at a register.
func (p neonPass) shifted(at string) {
	for i := 0; i < 4; i += 2 {
		p.Op("FLDPQ %d(%s), (F8, F9)", i*16, at)
		p.MOV(i, 16+i)
		p.MOV(i+1, 17+i)
		p.FMLA(i, 8, 13)
		p.FMLA(i+1, 9, 13)
	}
}

// pad writes rows of zeros up to a whole step of 32 keys.
func (p neonPass) pad(of, at string) {
	if p.full {
		return
	}
	p.Op("MOVD %s_keys(R0), R3", of)
	p.Op("NEG R3, R3")
	p.Op("ANDS $31, R3, R3")
	p.Op("BEQ padded")
	p.ZERO(0)
	p.Label("zeros")
	for i := 0; i < 4; i += 2 {
		p.Op("FSTPQ (F0, F0), %d(%s)", i*16, at)
	}
	p.Op("ADD $128, %s", at)
	p.Op("SUBS $1, R3")
	p.Op("BNE zeros")
	p.Label("padded")
}

// grade is grading.run. Rows of P and dS are a product's A: in bf16 the even queries come first.
func (p neonPass) grade() {
	p.Fn(p.name("grade"), 0, 8, fmt.Sprintf("func %s(x *grading)\ngrading.run for 32 queries.", p.name("grade")))
	p.Op("MOVD x+0(FP), R0")
	p.Flush()
	p.constants("grading")
	p.Op("ADD $grading_scale, R0, R26")
	p.LD1R(14, 26)
	p.halves("grading", func() {
		p.four("FLDPQ", "grading_shift", 16)
		p.four("FLDPQ", "grading_delta", 20)
		for i, field := range []string{"s", "g", "p", "d", "panel"} {
			p.Op("MOVD grading_%s(R0), R%d", field, 1+i)
			if p.full || i < 2 || i == 4 {
				p.Op("ADD R7, R%d", 1+i)
			} else {
				p.Op("ADD R7>>1, R%d", 1+i)
			}
		}
		p.Op("MOVD grading_keys(R0), R6")
		p.Label("row")
		p.shifted("R1")
		for i := range 4 {
			p.exp2.Power(p.Writer, i)
		}
		for i := range 4 {
			if i%2 == 0 {
				p.Op("FLDPQ %d(R2), (F%d, F%d)", i*16, 4+i, 5+i)
			}
			p.FSUB(4+i, 4+i, 20+i)
			p.FMUL(4+i, i, 4+i)
			p.FMUL(4+i, 4+i, 14)
			if !p.full {
				p.bf16.RoundResult(p.Writer, i, maskNEON)
				p.bf16.RoundResult(p.Writer, 4+i, maskNEON)
			}
		}
		for i := 0; i < 4; i += 2 {
			p.Op("FSTPQ (F%d, F%d), %d(R5)", 4+i, 5+i, i*16)
		}
		p.line(0, "R3")
		p.line(4, "R4")
		for r := 1; r <= 5; r++ {
			p.Op("ADD $128, R%d", r)
		}
		p.Op("SUBS $1, R6")
		p.Op("BNE row")
		p.pad("grading", "R5")
	})
	p.Ret("grading_flushed(R0)")
}

// line writes a half of a row of A.
func (p neonPass) line(v int, at string) {
	if p.full {
		if at == "R3" {
			p.Op("FSTPQ (F%d, F%d), (%s)", v, v+1, at)
			p.Op("FSTPQ (F%d, F%d), 32(%s)", v+2, v+3, at)
		}
		return // the panel's rows are those of dS
	}
	for i := range 2 {
		p.UZP1(8+i, v+2*i, v+2*i+1)
		p.UZP2(10+i, v+2*i, v+2*i+1)
	}
	p.Op("FSTPQ (F8, F9), (%s)", at)
	p.Op("FSTPQ (F10, F11), 64(%s)", at)
}

// rescale multiplies rows of 32 by r.
func rescaleNEON(w *neon.Writer) {
	w.Fn("rescaleNEON", 0, 32,
		"func rescaleNEON(o, r unsafe.Pointer, rows int) (flushed int)\nrows of 32 at o are multiplied by r.")
	w.Op("MOVD o+0(FP), R0")
	w.Op("MOVD r+8(FP), R1")
	w.Op("MOVD rows+16(FP), R2")
	w.Op("MOVD ZR, flushed+24(FP)")
	w.Flush()
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R1), (F%d, F%d)", i*16, 8+i, 9+i)
	}
	w.Label("row")
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R0), (F%d, F%d)", i*16, i, i+1)
		w.FMUL(i, i, 8+i)
		w.FMUL(i+1, i+1, 9+i)
		w.Op("FSTPQ (F%d, F%d), %d(R0)", i, i+1, i*16)
	}
	w.Op("ADD $128, R0")
	w.Op("SUBS $1, R2")
	w.Op("BNE row")
	w.Ret("flushed+24(FP)")
}

// dotNEON is a sum of products in the 64 lanes of ref.Dot, over whole vectors.
func dotNEON(w *neon.Writer, float bool) {
	name, size := "dotBF16NEON", 2
	if float {
		name, size = "dotF32NEON", 4
	}
	w.Fn(name, 0, 40, fmt.Sprintf("func %s(x, y unsafe.Pointer, vectors int) (dot float32, flushed int)\n"+
		"x · y, over four numbers a vector.", name))
	w.Op("MOVD x+0(FP), R0")
	w.Op("MOVD y+8(FP), R1")
	w.Op("MOVD vectors+16(FP), R2")
	w.Op("MOVD ZR, flushed+32(FP)")
	w.Flush()
	for j := range 16 {
		w.ZERO(j)
	}
	w.Label("block")
	for j := range 16 {
		w.Op("CBZ R2, total")
		w.Op("SUB $1, R2")
		for i, r := range []string{"R0", "R1"} {
			if float {
				w.Op("FMOVQ.P 16(%s), F%d", r, 16+i)
			} else {
				w.Op("FMOVD.P %d(%s), F%d", 4*size, r, 16+i)
				w.SHLL(16+i, 16+i)
			}
		}
		w.FMLA(j, 16, 17)
	}
	w.Op("B block")
	w.Label("total")
	for h := range 4 {
		w.FADD(h, h, 4+h)
		w.FADD(8+h, 8+h, 12+h)
		w.FADD(h, h, 8+h)
	}
	w.FADD(0, 0, 2)
	w.FADD(1, 1, 3)
	w.FADD(0, 0, 1)
	w.EXT(1, 0, 0, 8)
	w.FADD(0, 0, 1)
	w.DUP(1, 0, 1)
	w.FADD(0, 0, 1)
	w.Op("FMOVS F0, dot+24(FP)")
	w.Ret("flushed+32(FP)")
}

// ropeNEON turns the heads of one token; pairs are a multiple of four.
func ropeNEON(w *neon.Writer, halves, float bool) {
	kind, of := map[bool]string{false: "Interleaved", true: "Halves"}, map[bool]string{false: "BF16", true: "F32"}
	name := "rope" + kind[halves] + of[float] + "NEON"
	size := map[bool]int{false: 2, true: 4}[float]
	round := neon.Rounding{One: 20, Most: 21, Quiet: 22, T: 23, U: 24}
	w.Fn(name, 0, 8, fmt.Sprintf("func %s(t *turning)\nRope of the heads of one token.", name))
	w.Op("MOVD t+0(FP), R0")
	w.Flush()
	round.Constants(w)
	w.Op("ADD $turning_sign, R0, R26")
	w.LD1R(19, 26)
	w.Op("MOVD turning_x(R0), R1")
	w.Op("MOVD turning_y(R0), R2")
	w.Op("MOVD turning_heads(R0), R3")
	w.Op("MOVD turning_pairs(R0), R4")
	w.Op("MOVD $%d, R5", size)
	w.Op("MUL R4, R5, R5 // bytes to the other half")
	w.Label("head")
	w.Op("MOVD R1, R6")
	w.Op("MOVD R2, R7")
	w.Op("MOVD turning_cos(R0), R8")
	w.Op("MOVD turning_sin(R0), R9")
	w.Op("MOVD R4, R10")
	w.Label("step")
	w.Op("FMOVQ.P 16(R8), F6")
	w.Op("FMOVQ.P 16(R9), F7")
	w.EOR(7, 7, 19)
	load := func(r string, at, v int) {
		if float {
			w.Op("FMOVQ %d(%s), F%d", at, r, v)
			return
		}
		w.Op("FMOVD %d(%s), F%d", at, r, v)
		w.SHLL(v, v)
	}
	store := func(v int, r string, at int) {
		if float {
			w.Op("FMOVQ F%d, %d(%s)", v, at, r)
			return
		}
		round.Round(w, v)
		w.SHRN(v, v)
		w.Op("FMOVD F%d, %d(%s)", v, at, r)
	}
	if halves {
		w.Op("ADD R5, R6, R11")
		w.Op("ADD R5, R7, R12")
		load("R6", 0, 0)
		load("R11", 0, 1)
	} else {
		load("R6", 0, 2)
		load("R6", 4*size, 3)
		w.UZP1(0, 2, 3)
		w.UZP2(1, 2, 3)
	}
	w.FMUL(4, 1, 7)
	w.FNEG(4, 4)
	w.FMUL(5, 0, 7)
	w.FMLA(4, 0, 6)
	w.FMLA(5, 1, 6)
	if halves {
		store(4, "R7", 0)
		store(5, "R12", 0)
		w.Op("ADD $%d, R6", 4*size)
		w.Op("ADD $%d, R7", 4*size)
	} else {
		w.ZIP1(2, 4, 5)
		w.ZIP2(3, 4, 5)
		store(2, "R7", 0)
		store(3, "R7", 4*size)
		w.Op("ADD $%d, R6", 8*size)
		w.Op("ADD $%d, R7", 8*size)
	}
	w.Op("SUBS $4, R10")
	w.Op("BGT step")
	for i, stride := range []string{"xStride", "yStride"} {
		w.Op("MOVD turning_%s(R0), R11", stride)
		w.Op("ADD R11, R%d", 1+i)
	}
	w.Op("SUBS $1, R3")
	w.Op("BNE head")
	w.Ret("turning_flushed(R0)")
}

func neonFile() []byte {
	w := neon.New("kernels/cpu/attention/gen")
	for _, full := range []bool{true, false} {
		p := newNEONPass(w, full)
		p.weigh()
		p.grade()
		dotNEON(w, full)
		for _, halves := range []bool{false, true} {
			ropeNEON(w, halves, full)
		}
	}
	rescaleNEON(w)
	return w.Text()
}
