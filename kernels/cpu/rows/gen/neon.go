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
// Registers: V0 to V6 are the body's, V7 holds a constant and V8 a sum for one instruction, V9 the mask of a tail.
// V16 to V31 hold the lanes of sums; the rest from V10 on constants of the loop. R0 is the job, R1 to R8 are where
// the operands begin (R8: dst), R10 to R17 where the loop is in them, R9 the elements left, R19 the rows left, R20 to
// R23 scratch.
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

// heldNEON is the register that holds name's value over the loop; none where all are taken.
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

// expNEON is e^x in place; n, q and t are lost. Between ref's bounds the result is normal, so that n is added to its
// exponent; results beyond them are chosen at the end, which keeps UFC from being set where the result is 0.
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

// rehearseNEON finds the body's constants, and loads them.
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

// The loops of path NEON: whole blocks of several vectors, vectors one by one, and up to three
// elements that are left, whose loads and stores go by their number.

// kernelNEON is kernel for this path.
func (v *vector) kernelNEON() {
	w := neon.Writer{}
	frame := 0
	if v.lanesInMemory() {
		frame = 16 + 256
	}
	w.Fn(v.name(), frame, 8, fmt.Sprintf("func %s(a *job)", v.name()))
	w.Op("MOVD a+0(FP), R0")
	if v.k.taps {
		w.Flush()
		v.Write(w.Bytes())
		v.tapsNEON()
		v.arm(func(w *neon.Writer) { w.Ret("job_flushed(R0)") })
		return
	}
	for i := range v.k.src {
		w.Op("MOVD job_src+%d(R0), R%d", 8*i, 1+i)
	}
	w.Op("MOVD job_dst(R0), R%d", dstR)
	w.Flush()
	v.Write(w.Bytes())
	v.rehearseNEON()
	switch {
	case v.k.columns:
		v.columnsNEON()
	case v.k.rows:
		v.goes("MOVD job_rows(R0), R19")
		v.label("row")
		v.acrossNEON()
		for i, letter := range v.k.src {
			if letter != 'c' {
				v.advance(fmt.Sprintf("job_stride+%d(R0)", 8*i), 1+i)
			}
		}
		v.advance("job_stride+16(R0)", dstR)
		v.goes("SUBS $1, R19")
		v.goes("BNE row")
	default:
		v.lanesBegin()
		v.acrossNEON()
		v.totalNEON()
	}
	v.arm(func(w *neon.Writer) { w.Ret("job_flushed(R0)") })
}

// lanesInMemory says whether a row's sum has a tail, whose lanes are found by address.
func (v *vector) lanesInMemory() bool { return !v.k.columns && (v.k.sum || v.k.max) }

// advance adds a number in memory to a register.
func (v *vector) advance(memory string, r int) {
	v.goes("MOVD %s, R20", memory)
	v.goes("ADD R20, R%d", r)
}

// size is the bytes of an element of operand i, or of dst.
func (v *vector) size(i int) int {
	switch {
	case i == len(v.k.src) && (v.k.dst == "f" || v.k.dst == "" || v.types[1] == 'f'):
		return 4
	case i == len(v.k.src):
		return 2
	case v.k.src[i] != 'x' || v.types[0] == 'f':
		return 4
	}
	return 2
}

// eachOperand calls f with where an operand begins and the size of its elements; prefetched ones are left out.
func (v *vector) eachOperand(f func(r, size int)) {
	for i, letter := range v.k.src {
		if letter != 'p' && letter != 'w' {
			f(1+i, v.size(i))
		}
	}
	if v.k.dst != "" || v.k.columns {
		f(dstR, v.size(len(v.k.src)))
	}
}

// step moves the loop on by some elements.
func (v *vector) step(elements int) {
	v.eachOperand(func(r, size int) { v.goes("ADD $%d, R%d", elements*size, r+inLoop) })
}

// acrossNEON is the loop over a row.
func (v *vector) acrossNEON() {
	block := 4 // vectors
	if v.lanesInMemory() {
		block = 16
	}
	v.eachOperand(func(r, _ int) { v.goes("MOVD R%d, R%d", r, r+inLoop) })
	v.goes("MOVD job_n(R0), R9")
	v.goes("SUBS $%d, R9", block*4)
	v.goes("BLT vectors")
	v.label("blocks")
	for v.j = range block {
		v.k.body(v)
	}
	v.step(block * 4)
	v.goes("SUBS $%d, R9", block*4)
	v.goes("BGE blocks")
	v.label("vectors")
	v.goes("ADDS $%d, R9", block*4)
	v.goes("BEQ done")
	v.j = 0
	if v.lanesInMemory() {
		for j := 0; j < 16; j += 2 {
			v.goes("FSTPQ (F%d, F%d), %d(RSP)", 16+j, 17+j, 16+16*j)
		}
		v.goes("ADD $16, RSP, R21")
	}
	v.tailNEON(func() { v.laned(func() { v.k.body(v) }) }, func() { v.step(4) })
	if v.lanesInMemory() {
		for j := 0; j < 16; j += 2 {
			v.goes("FLDPQ %d(RSP), (F%d, F%d)", 16+16*j, 16+j, 17+j)
		}
	}
	v.label("done")
}

// tailNEON runs a vector's work while four elements are left, and then on the rest.
func (v *vector) tailNEON(work, next func()) {
	v.goes("SUBS $4, R9")
	v.goes("BLT few")
	v.label("vector")
	work()
	next()
	v.goes("SUBS $4, R9")
	v.goes("BGE vector")
	v.label("few")
	v.goes("ADDS $4, R9")
	v.goes("BEQ whole")
	v.goes("MOVD $·masks<>+16(SB), R20")
	v.goes("SUB R9<<2, R20")
	v.goes("FMOVQ (R20), F%d", maskV)
	v.masked = true
	work()
	v.masked = false
	v.label("whole")
}

// laned brings the lanes of a sum's tail into registers and back.
func (v *vector) laned(f func()) {
	if !v.lanesInMemory() {
		f()
		return
	}
	v.goes("FMOVQ (R21), F%d", v.lane(0))
	f()
	v.goes("FMOVQ.P F%d, 16(R21)", v.lane(0))
}

// lanesBegin are a sum's +0, or a maximum's -Inf.
func (v *vector) lanesBegin() {
	if !v.lanesInMemory() {
		return
	}
	v.arm(func(w *neon.Writer) {
		for j := range 16 {
			if v.k.max {
				w.Splat(16+j, 0xff800000)
			} else {
				w.ZERO(16 + j)
			}
		}
	})
}

// totalNEON adds the lanes: (0+1)+(2+3) of sixteen each, then halves.
func (v *vector) totalNEON() {
	if !v.lanesInMemory() {
		return
	}
	v.arm(func(w *neon.Writer) {
		add := func(a, b int) {
			if !v.k.max {
				w.FADD(a, a, b)
				return
			}
			w.FCMGT(sumV, a, b)
			w.BSL(sumV, a, b)
			w.MOV(a, sumV)
		}
		for h := range 4 { // vector h of each sixteen
			add(16+h, 20+h)
			add(24+h, 28+h)
			add(16+h, 24+h)
		}
		add(16, 18)
		add(17, 19)
		add(16, 17)
		w.EXT(17, 16, 16, 8)
		add(16, 17)
		w.DUP(17, 16, 1)
		add(16, 17)
		w.Op("FMOVS F16, job_total(R0)")
	})
}

// columnsNEON adds down the rows: of 64 columns, or 16, then of four, then of the rest.
func (v *vector) columnsNEON() {
	block := 16
	if v.k.moments {
		block = 4
	}
	v.goes("MOVD job_n(R0), R9")
	v.goes("SUBS $%d, R9", block*4)
	v.goes("BLT vectors")
	v.label("blocks")
	v.downNEON(block)
	v.forward(block * 4)
	v.goes("SUBS $%d, R9", block*4)
	v.goes("BGE blocks")
	v.label("vectors")
	v.goes("ADDS $%d, R9", block*4)
	v.goes("BEQ done")
	v.tailNEON(func() { v.downNEON(1) }, func() { v.forward(4) })
	v.label("done")
}

// forward moves on where the operands begin.
func (v *vector) forward(elements int) {
	v.eachOperand(func(r, size int) { v.goes("ADD $%d, R%d", elements*size, r) })
}

// downNEON runs some vectors down the rows. Their sums are taken from dst, and put back.
func (v *vector) downNEON(vectors int) {
	row := v.unique("row")
	each := func(f func()) {
		for v.j = range vectors {
			f()
		}
		v.j = 0
	}
	v.eachOperand(func(r, _ int) { v.goes("MOVD R%d, R%d", r, r+inLoop) })
	each(func() {
		if v.k.moments {
			v.load(1, 10+v.j)
			v.move4(22+v.j, 3, true)
		}
		v.move4(16+v.j, dstR, true)
	})
	v.goes("MOVD job_rows(R0), R19")
	v.label(row)
	each(func() {
		if !v.k.moments {
			v.k.body(v)
			return
		}
		v.load(0, 0)
		v.arm(func(w *neon.Writer) {
			w.FSUB(0, 0, 10+v.j)
			w.FADD(16+v.j, 16+v.j, 0)
			w.FMLA(22+v.j, 0, 0)
		})
	})
	for i := range v.k.src {
		if !v.k.moments || i == 0 {
			v.advance(fmt.Sprintf("job_stride+%d(R0)", 8*i), 1+i+inLoop)
		}
	}
	v.goes("SUBS $1, R19")
	v.goes("BNE %s", row)
	each(func() {
		v.move4(16+v.j, dstR, false)
		if v.k.moments {
			v.move4(22+v.j, 3, false)
		}
	})
}

// loadNEON and storeNEON are load and store for this path.
func (v *vector) loadNEON(i, to int) {
	r, size := 1+i+inLoop, v.size(i)
	switch {
	case v.masked:
		v.fewNEON(to, r, size, true)
	case size == 4:
		v.goes("FMOVQ %d(R%d), F%d", v.j*16, r, to)
	default:
		v.goes("FMOVD %d(R%d), F%d", v.j*8, r, to)
	}
	if size == 2 {
		v.arm(func(w *neon.Writer) { w.SHLL(to, to) })
	}
}

func (v *vector) storeNEON(x, tmp int) {
	r, size := dstR+inLoop, v.size(len(v.k.src))
	if size == 2 {
		v.toBF16NEON(x, tmp)
	}
	switch {
	case v.masked:
		v.fewNEON(x, r, size, false)
	case size == 4:
		v.goes("FMOVQ F%d, %d(R%d)", x, v.j*16, r)
	default:
		v.goes("FMOVD F%d, %d(R%d)", x, v.j*8, r)
	}
}

// move4 moves fp32 between a register and an operand of the loop.
func (v *vector) move4(x, operand int, load bool) {
	r := operand + inLoop
	switch {
	case v.masked:
		v.fewNEON(x, r, 4, load)
	case load:
		v.goes("FMOVQ %d(R%d), F%d", v.j*16, r, x)
	default:
		v.goes("FMOVQ F%d, %d(R%d)", x, v.j*16, r)
	}
}

// fewNEON moves one to three elements, as many as R9 says. The lanes beyond a load are +0.
func (v *vector) fewNEON(x, r, size int, load bool) {
	one, moved := v.unique("one"), v.unique("moved")
	pair, single := "FMOVD", "FMOVS"
	if size == 2 {
		pair = "FMOVS"
	}
	v.goes("CMP $2, R9")
	v.goes("BLT %s", one)
	if load {
		v.goes("%s (R%d), F%d", pair, r, x)
	} else {
		v.goes("%s F%d, (R%d)", pair, x, r)
	}
	v.goes("BEQ %s", moved)
	v.goes("ADD $%d, R%d, R20", 2*size, r)
	v.arm(func(w *neon.Writer) {
		if load {
			w.LoadThird(x, 20, size)
		} else {
			w.StoreThird(x, 20, size)
		}
	})
	v.goes("B %s", moved)
	v.label(one)
	switch {
	case size == 4 && load:
		v.goes("%s (R%d), F%d", single, r, x)
	case size == 4:
		v.goes("%s F%d, (R%d)", single, x, r)
	case load:
		v.goes("MOVHU (R%d), R20", r)
		v.goes("FMOVS R20, F%d", x)
	default:
		v.goes("FMOVS F%d, R20", x)
		v.goes("MOVH R20, (R%d)", r)
	}
	v.label(moved)
}

// mergeNEON puts f's results for the lanes into them, beyond a tail not.
func (v *vector) mergeNEON(f func(w *neon.Writer, lane int)) {
	to := v.lane(v.j)
	v.arm(func(w *neon.Writer) {
		if !v.masked {
			f(w, to)
			return
		}
		w.MOV(constantV, to)
		f(w, to)
		w.BIF(to, constantV, maskV)
	})
}
