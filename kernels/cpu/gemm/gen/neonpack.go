package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// What path NEON does around its products: packing, and passes over rows of 32 of C.

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
