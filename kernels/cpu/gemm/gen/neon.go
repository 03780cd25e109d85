package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// Path NEON: block kernels of m rows and n vectors of four columns, on panels of fp32. Up to
// three rows take the panel's 32 columns at once, so that there are chains enough to fill the
// pipes; up to six rows take them by halves. A's numbers stand four k to a register, and
// multiply by lane.
//
// Registers: V0 to V23 sums, V24 on rows of A, V30 and V31 (V28 to V31) vectors of B. R0 the
// arguments, R1 C, R2 and R3 starts of A and B, R4 A's row stride, R5 row blocks left, R6 k
// left, R7 B, R8 to R13 rows of A, R14 C of this half, R15 halves left, R16 where B's half is.
type neonBlock struct {
	*neon.Writer
	m, n int
}

func (b neonBlock) acc(r, j int) int { return r*b.n + j }

// a is the register of row r's numbers.
func (b neonBlock) a(r int) int { return 24 + r }

// open begins a function, its loop over row blocks, and that over halves of the panel.
func (b neonBlock) open(name string, frame int, doc string) {
	b.Fn(name, frame, 8, fmt.Sprintf("func %s(a *block)\n%s", name, doc))
	b.Op("MOVD a+0(FP), R0")
	for _, x := range []struct {
		field string
		reg   int
	}{{"c", 1}, {"a", 2}, {"b", 3}, {"lda", 4}, {"blocks", 5}} {
		b.Op("MOVD block_%s(R0), R%d", x.field, x.reg)
	}
	b.Flush()
	b.Label("rows")
	b.Op("MOVD R1, R14")
	b.Op("MOVD R3, R16")
	if b.n == 4 {
		b.Op("MOVBU block_narrow(R0), R15 // columns 0 to 15 alone, or all")
	}
	b.Label("half")
	b.Op("MOVD block_steps(R0), R6")
	b.Op("MOVD R16, R7")
	for r := range b.m {
		if r == 0 {
			b.Op("MOVD R2, R8")
		} else {
			b.Op("ADD R4, R%d, R%d", 7+r, 8+r)
		}
	}
}

// shut ends both loops and the function.
func (b neonBlock) shut() {
	if b.n == 4 {
		b.Op("CBNZ R15, halved")
		b.Op("MOVD $1, R15")
		b.Op("ADD $64, R14")
		b.Op("ADD $64, R16")
		b.Op("B half")
		b.Label("halved")
	}
	b.Op("MOVD $%d, R6", b.m)
	b.Op("MADD R6, R2, R4, R2")
	b.Op("ADD $%d, R1", b.m*128)
	b.Op("SUBS $1, R5")
	b.Op("BNE rows")
	b.Ret("block_flushed(R0)")
}

// pairs calls f for pairs of vectors: registers of sums, and where they lie in C.
func (b neonBlock) pairs(f func(v, at int)) {
	for r := range b.m {
		for j := 0; j < b.n; j += 2 {
			f(b.acc(r, j), r*128+j*16)
		}
	}
}

// times is the products of one k with lane of the rows' registers; B's row is at an offset.
func (b neonBlock) times(at, lane int, first bool) {
	for j := 0; j < b.n; j += 2 {
		v := 30
		if b.n == 8 && j%4 == 0 {
			v = 28
		}
		b.Op("FLDPQ %d(R7), (F%d, F%d)", at+j*16, v, v+1)
		for r := range b.m {
			for i := range 2 {
				if first {
					b.FMULlane(b.acc(r, j+i), v+i, b.a(r), lane)
				} else {
					b.FMLAlane(b.acc(r, j+i), v+i, b.a(r), lane)
				}
			}
		}
	}
}

// f32 is a chain over k.
func (b neonBlock) f32() {
	b.open(fmt.Sprintf("f32NEON%dx%d", b.m, b.n), 0, fmt.Sprintf("C[%d rows][%d] = one chain of FMLA over k.", b.m, b.n*4))
	b.Op("MOVD block_start(R0), R17")
	b.Op("CBNZ R17, load")
	for v := range b.m * b.n {
		b.ZERO(v)
	}
	b.Op("B loaded")
	b.Label("load")
	b.pairs(func(v, at int) { b.Op("FLDPQ %d(R14), (F%d, F%d)", at, v, v+1) })
	b.Label("loaded")
	b.Op("SUBS $4, R6")
	b.Op("BLT tail")
	b.Label("four")
	for r := range b.m {
		b.Op("FMOVQ.P 16(R%d), F%d", 8+r, b.a(r))
	}
	for k := range 4 {
		b.times(k*128, k, false)
	}
	b.Op("ADD $512, R7")
	b.Op("SUBS $4, R6")
	b.Op("BGE four")
	b.Label("tail")
	b.Op("ADDS $4, R6")
	b.Op("BEQ done")
	b.Label("one")
	for r := range b.m {
		b.Op("FMOVS.P 4(R%d), F%d", 8+r, b.a(r))
	}
	b.times(0, 0, false)
	b.Op("ADD $128, R7")
	b.Op("SUBS $1, R6")
	b.Op("BNE one")
	b.Label("done")
	b.pairs(func(v, at int) { b.Op("FSTPQ (F%d, F%d), %d(R14)", v, v+1, at) })
	b.shut()
}

// bf16 is C += E + O for each step of 32 k. The chain E runs over a step's even k, then O
// over the odd ones; rows of A have the even numbers of a step first. O begins with a product,
// not with a sum of +0 and it: where that makes -0 of +0, E + O is the same, since E is no -0.
func (b neonBlock) bf16() {
	const stash = 16
	b.open(fmt.Sprintf("bf16NEON%dx%d", b.m, b.n), stash+b.m*b.n*16, fmt.Sprintf("C[%d rows][%d] += E + O for each step of 32 k.", b.m, b.n*4))
	b.Op("MOVD block_start(R0), R17")
	b.Label("step")
	for v := range b.m * b.n {
		b.ZERO(v)
	}
	for chain := range 2 {
		for eight := range 2 {
			b.eightOf(chain == 1 && eight == 0)
		}
		if chain == 0 {
			for v := 0; v < b.m*b.n; v += 2 {
				b.Op("FSTPQ (F%d, F%d), %d(RSP)", v, v+1, stash+v*16)
			}
			b.Op("SUB $%d, R7 // the odd rows of the panel", 4096-128)
		}
	}
	b.Op("SUB $128, R7")
	for v := 0; v < b.m*b.n; v += 2 {
		b.Op("FLDPQ %d(RSP), (F30, F31)", stash+v*16)
		b.FADD(v, v, 30)
		b.FADD(v+1, v+1, 31)
	}
	b.Op("CBZ R17, first")
	b.pairs(func(v, at int) {
		b.Op("FLDPQ %d(R14), (F30, F31)", at)
		b.FADD(v, v, 30)
		b.FADD(v+1, v+1, 31)
	})
	b.Label("first")
	b.Op("MOVD $1, R17")
	b.pairs(func(v, at int) { b.Op("FSTPQ (F%d, F%d), %d(R14)", v, v+1, at) })
	b.Op("SUBS $1, R6")
	b.Op("BNE step")
	b.shut()
}

// eightOf is eight numbers of a chain: every other row of the panel.
func (b neonBlock) eightOf(first bool) {
	for four := range 2 {
		for r := range b.m {
			b.Op("FMOVQ.P 16(R%d), F%d", 8+r, b.a(r))
		}
		for k := range 4 {
			b.times(k*256, k, first && four == 0 && k == 0)
		}
		b.Op("ADD $1024, R7")
	}
}

func neonFile() []byte {
	w := neon.New("kernels/cpu/gemm/gen")
	for _, s := range neonShapes() {
		b := neonBlock{w, s[0], s[1]}
		b.f32()
		b.bf16()
	}
	return w.Text()
}

// neonShapes are the blocks that have kernels.
func neonShapes() (all [][2]int) {
	for m := 1; m <= 6; m++ {
		all = append(all, [2]int{m, 4})
		if m <= 3 {
			all = append(all, [2]int{m, 8})
		}
	}
	return all
}

// Path NEON around its products: packing, and passes over rows of 32 of C.

func arguments(w *neon.Writer, names ...string) {
	for i, n := range names {
		w.Op("MOVD %s+%d(FP), R%d", n, 8*i, i)
	}
}

var rounding = neon.Rounding{One: 24, Most: 25, Quiet: 26, T: 27, U: 28}

// turn transposes blocks of 4 x 4.
func turn(w *neon.Writer) {
	w.Fn("turnNEON", 0, 56, "func turnNEON(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int)\nBlocks of 4 x 4 fp32, a step apart, are transposed.")
	arguments(w, "dst", "src", "dstStride", "srcStride", "dstStep", "srcStep", "count")
	w.Label("block")
	for r := range 4 {
		if r == 0 {
			w.Op("MOVD R1, R8")
		} else {
			w.Op("ADD R3, R8")
		}
		w.Op("FMOVQ (R8), F%d", r)
	}
	w.ZIP1(4, 0, 2)
	w.ZIP2(5, 0, 2)
	w.ZIP1(6, 1, 3)
	w.ZIP2(7, 1, 3)
	w.Op("MOVD R0, R8")
	for r := range 4 {
		if r%2 == 0 {
			w.ZIP1(r, 4+r/2, 6+r/2)
		} else {
			w.ZIP2(r, 4+r/2, 6+r/2)
		}
		w.Op("FMOVQ F%d, (R8)", r)
		if r < 3 {
			w.Op("ADD R2, R8")
		}
	}
	w.Op("ADD R4, R0")
	w.Op("ADD R5, R1")
	w.Op("SUBS $1, R6")
	w.Op("BNE block")
	w.Op("RET")
}

// widen makes fp32 of groups of eight bf16.
func widen(w *neon.Writer) {
	w.Fn("widenNEON", 0, 24, "func widenNEON(dst, src unsafe.Pointer, groups int)\ndst gets groups of 8 bf16 as fp32.")
	arguments(w, "dst", "src", "groups")
	w.Label("group")
	w.Op("FMOVQ.P 16(R1), F2")
	w.SHLL(0, 2)
	w.SHLL2(1, 2)
	w.Op("FSTPQ.P (F0, F1), 32(R0)")
	w.Op("SUBS $1, R2")
	w.Op("BNE group")
	w.Op("RET")
}

// narrow makes bf16 of groups of eight fp32.
func narrow(w *neon.Writer) {
	w.Fn("narrowNEON", 0, 24, "func narrowNEON(dst, src unsafe.Pointer, groups int)\ndst gets groups of 8 fp32 as bf16.")
	arguments(w, "dst", "src", "groups")
	w.Flush()
	rounding.Constants(w)
	w.Label("group")
	w.Op("FLDPQ.P 32(R1), (F0, F1)")
	rounding.Round(w, 0)
	rounding.Round(w, 1)
	w.SHRN(2, 0)
	w.SHRN2(2, 1)
	w.Op("FMOVQ.P F2, 16(R0)")
	w.Op("SUBS $1, R2")
	w.Op("BNE group")
	w.Ret("")
}

// split rounds steps of 32 fp32 to bf16, in place, the even ones first.
func split(w *neon.Writer) {
	w.Fn("splitNEON", 0, 16, "func splitNEON(p unsafe.Pointer, steps int)\nSteps of 32 fp32 are rounded to bf16, and the even ones of each laid first.")
	arguments(w, "p", "steps")
	w.Flush()
	rounding.Constants(w)
	w.Op("MOVD $0xFFFF0000, R3")
	w.Op("VDUP R3, V29.S4")
	w.Label("step")
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R0), (F%d, F%d)", i*16, i, i+1)
	}
	for i := range 8 {
		rounding.Round(w, i)
		w.AND(i, i, 29)
	}
	for i := range 4 {
		w.UZP1(8+i, 2*i, 2*i+1)
		w.UZP2(12+i, 2*i, 2*i+1)
	}
	for i := 0; i < 8; i += 2 {
		w.Op("FSTPQ (F%d, F%d), %d(R0)", 8+i, 9+i, i*16)
	}
	w.Op("ADD $128, R0")
	w.Op("SUBS $1, R1")
	w.Op("BNE step")
	w.Ret("")
}

// combine is c = c op src over whole rows.
func combine(w *neon.Writer, verb string, float bool, op func(d, n, m int)) {
	name := verb + kindOf(float) + "NEON"
	w.Fn(name, 0, 40, fmt.Sprintf("func %s(c, src unsafe.Pointer, stride, rows int) (flushed int)\nc op= src over rows of 32.", name))
	arguments(w, "c", "src", "stride", "rows")
	w.Op("MOVD ZR, flushed+32(FP)")
	w.Flush()
	w.Label("row")
	if float {
		for i := 0; i < 8; i += 2 {
			w.Op("FLDPQ %d(R1), (F%d, F%d)", i*16, i, i+1)
		}
	} else {
		w.Op("FLDPQ (R1), (F16, F17)")
		w.Op("FLDPQ 32(R1), (F18, F19)")
		for i := range 4 {
			w.SHLL(2*i, 16+i)
			w.SHLL2(2*i+1, 16+i)
		}
	}
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R0), (F%d, F%d)", i*16, 8+i, 9+i)
	}
	for i := range 8 {
		op(8+i, 8+i, i)
	}
	for i := 0; i < 8; i += 2 {
		w.Op("FSTPQ (F%d, F%d), %d(R0)", 8+i, 9+i, i*16)
	}
	w.Op("ADD R2, R1")
	w.Op("ADD $128, R0")
	w.Op("SUBS $1, R3")
	w.Op("BNE row")
	w.Ret("flushed+32(FP)")
}

func kindOf(float bool) string {
	if float {
		return "RowsF32"
	}
	return "RowsBF16"
}

// store is dst = c + bias over whole rows.
func store(w *neon.Writer, float bool) {
	name := "store" + kindOf(float) + "NEON"
	w.Fn(name, 0, 40, fmt.Sprintf("func %s(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)\ndst gets c plus 32 biases over rows of 32.", name))
	arguments(w, "c", "dst", "stride", "rows", "bias")
	w.Flush()
	rounding.Constants(w)
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R4), (F%d, F%d)", i*16, 8+i, 9+i)
	}
	w.Label("row")
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R0), (F%d, F%d)", i*16, i, i+1)
		w.FADD(i, i, 8+i)
		w.FADD(i+1, i+1, 9+i)
		if float {
			w.Op("FSTPQ (F%d, F%d), %d(R1)", i, i+1, i*16)
			continue
		}
		rounding.Round(w, i)
		rounding.Round(w, i+1)
		w.SHRN(16+i/2, i)
		w.SHRN2(16+i/2, i+1)
	}
	if !float {
		w.Op("FSTPQ (F16, F17), (R1)")
		w.Op("FSTPQ (F18, F19), 32(R1)")
	}
	w.Op("ADD R2, R1")
	w.Op("ADD $128, R0")
	w.Op("SUBS $1, R3")
	w.Op("BNE row")
	w.Ret("")
}

// addScaledNEON is c += alpha · t, two roundings.
func addScaledNEON(w *neon.Writer) {
	w.Fn("addScaledNEON", 0, 40, "func addScaledNEON(c, t unsafe.Pointer, rows int, alpha float32) (flushed int)\nc += alpha t, two roundings, over rows of 32.")
	arguments(w, "c", "t", "rows")
	w.Op("MOVWU alpha+24(FP), R3")
	w.Op("VDUP R3, V24.S4")
	w.Op("MOVD ZR, flushed+32(FP)")
	w.Flush()
	w.Label("row")
	for i := 0; i < 8; i += 2 {
		w.Op("FLDPQ %d(R1), (F%d, F%d)", i*16, i, i+1)
		w.Op("FLDPQ %d(R0), (F%d, F%d)", i*16, 8+i, 9+i)
		for j := i; j < i+2; j++ {
			w.FMUL(j, j, 24)
			w.FADD(j, 8+j, j)
		}
		w.Op("FSTPQ (F%d, F%d), %d(R0)", i, i+1, i*16)
	}
	w.Op("ADD $128, R0")
	w.Op("ADD $128, R1")
	w.Op("SUBS $1, R2")
	w.Op("BNE row")
	w.Ret("flushed+32(FP)")
}

func neonPackFile() []byte {
	w := neon.New("kernels/cpu/gemm/gen")
	turn(w)
	widen(w)
	narrow(w)
	split(w)
	for _, float := range []bool{false, true} {
		combine(w, "add", float, w.FADD)
		combine(w, "mul", float, w.FMUL)
		store(w, float)
	}
	addScaledNEON(w)
	return w.Text()
}
