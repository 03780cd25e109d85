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
