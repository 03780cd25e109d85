package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// Path NEON: registers of four lanes. The bodies' instructions keep their x86 names, and are
// spelled here for Arm, where a fused product adds to its destination.
//
// Registers: V0 to V6 are the body's, V7 holds a constant and V8 a sum for one instruction, V9
// the mask of a tail. V16 to V31 hold the lanes of sums; the rest from V10 on what stays the
// same over the loop. R0 is the job, R1 to R8 are where the operands begin (R8: dst), R10 to
// R17 where the loop is in them, R9 the elements left, R19 the rows left, R20 to R23 scratch.
const (
	constantV, sumV, maskV = 7, 8, 9
	firstHeld              = 10
	dstR                   = 8
	inLoop                 = 9 // from R1 to R10, and so on
)

// arm writes with the package's mnemonics.
func (v *vector) arm(f func(w *neon.Writer)) {
	w := &neon.Writer{}
	f(w)
	v.Write(w.Bytes())
}

// goes writes an instruction in Go's own words.
func (v *vector) goes(format string, args ...any) { fmt.Fprintf(v, "\t"+format+"\n", args...) }

// unique makes a label's name the function's only one.
func (v *vector) unique(name string) string {
	v.labels++
	return fmt.Sprintf("%s%d", name, v.labels)
}

// in is the register of an operand: its number, or that of a constant which memory holds.
func (v *vector) in(o any) int {
	if r, ok := o.(int); ok {
		return r
	}
	if r, ok := v.heldNEON(o.(string)); ok {
		return r
	}
	v.fetch(o.(string), constantV)
	return constantV
}

// put fills a register from where in would find a constant.
func (v *vector) put(name string, to int) {
	if r, ok := v.heldNEON(name); ok {
		v.arm(func(w *neon.Writer) { w.MOV(to, r) })
		return
	}
	v.fetch(name, to)
}

// fetch fills a register from a constant, or from a number of the job.
func (v *vector) fetch(name string, to int) {
	if at, ok := strings.CutPrefix(name, "job_s+"); ok {
		v.goes("MOVWU job_s+%s(R0), R26", strings.TrimSuffix(at, "(BX)"))
		v.goes("VDUP R26, V%d.S4", to)
		return
	}
	v.goes("MOVD $%s, R26", name)
	v.goes("FMOVQ (R26), F%d", to)
}

// heldNEON is the register that holds what name says over the loop; none where all are taken.
func (v *vector) heldNEON(name string) (r int, ok bool) {
	last := 31
	if v.k.sum || v.k.max {
		last = 15
	}
	i := slices.Index(v.names, name)
	if i < 0 {
		i = len(v.names)
		if firstHeld+i > last || v.k.moments {
			return 0, false
		}
		v.names = append(v.names, name)
	}
	return firstHeld + i, true
}

// opNEON is op for this path: sources come first, the first of them last in a difference.
func (v *vector) opNEON(name string, operands ...any) {
	to := operands[len(operands)-1].(int)
	a := v.in(operands[0])
	b := a
	if len(operands) == 3 {
		b = v.in(operands[1])
	}
	v.arm(func(w *neon.Writer) {
		switch name {
		case "VADDPS":
			w.FADD(to, b, a)
		case "VSUBPS":
			w.FSUB(to, b, a)
		case "VMULPS":
			w.FMUL(to, b, a)
		case "VDIVPS":
			w.FDIV(to, b, a)
		case "VSQRTPS":
			w.FSQRT(to, a)
		case "VMOVUPS", "VMOVAPS":
			w.MOV(to, a)
		case "VPAND":
			w.AND(to, b, a)
		case "VPXOR":
			w.EOR(to, b, a)
		case "VMAXPS": // a where the operands compare neither way
			w.FCMGT(sumV, b, a)
			w.BSL(sumV, b, a)
			w.MOV(to, sumV)
		case "VFMADD231PS":
			w.FMLA(to, b, a)
		case "VFNMADD231PS":
			w.FMLS(to, b, a)
		case "VFMADD213PS":
			w.MOV(sumV, a)
			w.FMLA(sumV, b, to)
			w.MOV(to, sumV)
		case "VFNMADD213PS":
			w.MOV(sumV, a)
			w.FMLS(sumV, b, to)
			w.MOV(to, sumV)
		default:
			panic("gen: " + name + " has no spelling for NEON")
		}
	})
}

// hornerNEON is a polynomial at x into p: sums go to p and V8 by turns, and end in p.
func (v *vector) hornerNEON(c []float32, x, p int) {
	from := p
	if len(c)%2 == 0 {
		from = sumV
	}
	v.put(v.f32(c[0]), from)
	for _, k := range c[1:] {
		to := p + sumV - from
		v.put(v.f32(k), to)
		v.arm(func(w *neon.Writer) { w.FMLA(to, from, x) })
		from = to
	}
}

// Exponentials end where ref's do.
const (
	expMin = float32(-87.33654)
	expMax = float32(88.72283)
)

// expNEON is e^x in place; n, q and t are lost. Between ref's bounds the result is normal, so
// that n is added to its exponent; what lies beyond them is chosen at the end, which keeps
// UFC from being set where the result is 0.
func (v *vector) expNEON(d domain, x, n, q, t int) {
	minimum, maximum := v.f32(expMin), v.f32(expMax)
	least := v.in(minimum)
	v.arm(func(w *neon.Writer) { w.FCMGT(t, least, x) })
	v.opNEON("VMULPS", v.f32(log2E), x, n)
	v.arm(func(w *neon.Writer) { w.FRINTN(n, n) })
	if d == anyNumber {
		most := v.in(maximum)
		v.arm(func(w *neon.Writer) { w.FCMGT(maskOfExp, x, most) })
	}
	v.opNEON("VFMADD231PS", v.f32(-ln2Hi), n, x)
	v.opNEON("VFMADD231PS", v.f32(-ln2Lo), n, x)
	v.hornerNEON(expQ, x, q)
	v.arm(func(w *neon.Writer) {
		w.FMUL(sumV, x, x)
		w.FMLA(x, q, sumV)
	})
	v.opNEON("VADDPS", v.f32(1), x, x)
	v.arm(func(w *neon.Writer) {
		w.FCVTNS(n, n)
		w.SHL(n, n, 23)
		w.ADD(x, x, n)
		w.BIC(x, x, t)
	})
	if d == anyNumber {
		infinite := v.in(v.u32(0x7f800000))
		v.arm(func(w *neon.Writer) { w.BIT(x, infinite, maskOfExp) })
	}
}

// maskOfExp is a body's register that no body uses where it takes an exponential.
const maskOfExp = 6

// toBF16NEON leaves four bf16 in the lower half of x's register; tmp is lost.
func (v *vector) toBF16NEON(x, tmp int) {
	v.opNEON("VMULPS", v.f32(1), x, x) // a denormal becomes the zero of its sign
	half, quiet := v.in(v.u32(0x7fff)), 0
	v.arm(func(w *neon.Writer) {
		w.SHL(tmp, x, 15)
		w.USHR(tmp, tmp, 31)
		w.ADD(tmp, tmp, half)
		w.ADD(tmp, tmp, x)
		w.FCMEQ(sumV, x, x)
	})
	quiet = v.in(v.u32(0x400000))
	v.arm(func(w *neon.Writer) {
		w.ORR(x, x, quiet)
		w.BIT(x, tmp, sumV)
		w.SHRN(x, x)
	})
}

// rehearseNEON finds what the body asks to be held, and loads it.
func (v *vector) rehearseNEON() {
	v.names, v.j, v.masked = nil, 0, false
	if v.k.body == nil {
		return
	}
	v.written(v.k.body)
	for _, name := range v.names {
		r, _ := v.heldNEON(name)
		v.fetch(name, r)
	}
}
