package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// A line of a depthwise convolution: dst[pixel] = sum over places of x[pixel + offset of the place] · w[place], for all
// channels, one chain of fused products from +0, and then the bias. Channels fill a register, several pixels go side
// by side, and their sums stay in registers over all places.
//
// The job: src are x, the weights [places, channels], the bias or nil, and the places' offsets (int64, bytes); n is the
// channels, rows the pixels; stride the bytes from pixel to pixel of x, from place to place of the weights, and from
// pixel to pixel of dst.

// sideBySide are the pixels of a block: the first repeats while that many are left, the others take the rest.
var sideBySide = []int{8, 4, 2, 1}

// Registers of x86: BX the job, R8 the offsets, R9 a pixel of x, R10 three, R11 five and R12 seven; R13 the weights of
// a place, R14 from place to place; SI and DI the first pixel of a block, CX the channel, R15 the pixels left. Sums
// are in 0 to 7, a weight in 8, a masked pixel of AVX2 in 9.
const tapWeight, tapPixel = 8, 9

func (v *vector) tapsOfLine() {
	v.op("MOVQ", "job_src+24(BX)", "R8")
	v.op("MOVQ", "job_stride+0(BX)", "R9")
	v.op("LEAQ", "(R9)(R9*2)", "R10")
	v.op("LEAQ", "(R9)(R9*4)", "R11")
	v.op("LEAQ", "(R10)(R9*4)", "R12")
	v.op("MOVQ", "job_stride+8(BX)", "R14")
	v.op("XORQ", "CX", "CX")
	v.label("channels")
	v.op("MOVQ", "job_n(BX)", "DX")
	v.op("SUBQ", "CX", "DX")
	v.op("JEQ", "done")
	v.op("CMPQ", "DX", fmt.Sprintf("$%d", v.lanes()))
	v.op("JLT", "tail")
	v.tapsOfChannels("")
	v.op("ADDQ", fmt.Sprintf("$%d", v.lanes()), "CX")
	v.op("JMP", "channels")
	v.label("tail")
	v.masks()
	v.masked, v.j = true, 0
	v.mask()
	v.op("MOVQ", "job_stride+8(BX)", "R14") // the mask's place was there
	v.tapsOfChannels("Tail")
	v.masked = false
	v.label("done")
}

// tapsOfChannels are all pixels of a register's channels.
func (v *vector) tapsOfChannels(name string) {
	v.op("MOVQ", "job_src+0(BX)", "SI")
	v.op("LEAQ", "(SI)(CX*4)", "SI")
	v.op("MOVQ", "job_dst(BX)", "DI")
	v.op("LEAQ", "(DI)(CX*4)", "DI")
	v.op("MOVQ", "job_rows(BX)", "R15")
	for i, pixels := range sideBySide {
		block, next := fmt.Sprintf("block%s%d", name, pixels), fmt.Sprintf("after%s%d", name, pixels)
		if i == 0 {
			v.label(block)
			v.op("CMPQ", "R15", fmt.Sprintf("$%d", pixels))
			v.op("JLT", next)
		} else {
			v.op("TESTQ", fmt.Sprintf("$%d", pixels), "R15")
			v.op("JEQ", next)
		}
		v.tapsOfPixels(block, pixels)
		v.op("LEAQ", fmt.Sprintf("(SI)(R9*%d)", pixels), "SI")
		if i == 0 {
			v.op("SUBQ", fmt.Sprintf("$%d", pixels), "R15")
			v.op("JMP", block)
		}
		v.label(next)
	}
}

// tapsOfPixels are some pixels: their sums over all places, the bias, and their stores.
func (v *vector) tapsOfPixels(name string, pixels int) {
	at := []string{"(AX)", "(AX)(R9*1)", "(AX)(R9*2)", "(AX)(R10*1)", "(AX)(R9*4)", "(AX)(R11*1)", "(AX)(R10*2)", "(AX)(R12*1)"}
	for i := range pixels {
		v.logic("VPXOR", i, i, i)
	}
	v.op("MOVQ", "job_src+8(BX)", "R13")
	v.op("LEAQ", "(R13)(CX*4)", "R13")
	v.op("XORQ", "DX", "DX")
	v.label(name + "places")
	v.op("MOVQ", "(R8)(DX*8)", "AX")
	v.op("ADDQ", "SI", "AX")
	v.move("(R13)", tapWeight, true)
	for i := range pixels {
		switch {
		case !v.masked:
			v.op("VFMADD231PS", at[i], tapWeight, i)
		case v.wide():
			v.op("VFMADD231PS", at[i], tapWeight, v.k1(), i)
		default:
			v.move(at[i], tapPixel, true)
			v.op("VFMADD231PS", tapPixel, tapWeight, i)
		}
	}
	v.op("ADDQ", "R14", "R13")
	v.op("INCQ", "DX")
	v.op("CMPQ", "DX", "job_places(BX)")
	v.op("JLT", name+"places")
	v.op("MOVQ", "job_src+16(BX)", "AX")
	v.op("TESTQ", "AX", "AX")
	v.op("JEQ", name+"stores")
	v.move("(AX)(CX*4)", tapWeight, true)
	for i := range pixels {
		v.op("VADDPS", tapWeight, i, i)
	}
	v.label(name + "stores")
	v.op("MOVQ", "job_stride+16(BX)", "DX")
	for i := range pixels {
		v.move(i, "(DI)", false)
		v.op("ADDQ", "DX", "DI")
	}
}

// Registers of Arm: R0 the job, R1 the channel in bytes, R2 and R3 from pixel to pixel of x and of dst, R4 from place
// to place of the weights, R5 the weights of a place, R6 and R7 the first pixel of a block in x and dst, R9 the
// channels left, R10 the pixels left, R11 the places left, R12 the offsets, R13 a pixel. Sums are in V16 to V23.
func (v *vector) tapsNEON() {
	v.goes("MOVD ZR, R1")
	for i, r := range []int{2, 4, 3} {
		v.goes("MOVD job_stride+%d(R0), R%d", 8*i, r)
	}
	v.goes("MOVD job_n(R0), R9")
	v.tailNEON(func() { v.tapsOfChannelsNEON() }, func() { v.goes("ADD $16, R1") })
}

func (v *vector) tapsOfChannelsNEON() {
	v.goes("MOVD job_src+0(R0), R6")
	v.goes("ADD R1, R6")
	v.goes("MOVD job_dst(R0), R7")
	v.goes("ADD R1, R7")
	v.goes("MOVD job_rows(R0), R10")
	move := func(x, r int, load bool) {
		switch {
		case v.masked:
			v.fewNEON(x, r, 4, load)
		case load:
			v.goes("FMOVQ (R%d), F%d", r, x)
		default:
			v.goes("FMOVQ F%d, (R%d)", x, r)
		}
	}
	for i, pixels := range sideBySide {
		block, next := v.unique("block"), v.unique("after")
		if i == 0 {
			v.label(block)
			v.goes("CMP $%d, R10", pixels)
			v.goes("BLT %s", next)
		} else {
			v.goes("TST $%d, R10", pixels)
			v.goes("BEQ %s", next)
		}
		places, stores := v.unique("places"), v.unique("stores")
		v.arm(func(w *neon.Writer) {
			for i := range pixels {
				w.ZERO(16 + i)
			}
		})
		v.goes("MOVD job_src+8(R0), R5")
		v.goes("ADD R1, R5")
		v.goes("MOVD job_src+24(R0), R12")
		v.goes("MOVD job_places(R0), R11")
		v.label(places)
		v.goes("MOVD (R12), R13")
		v.goes("ADD R6, R13")
		v.goes("ADD $8, R12")
		move(10, 5, true)
		for i := range pixels {
			move(11, 13, true)
			v.arm(func(w *neon.Writer) { w.FMLA(16+i, 11, 10) })
			if i+1 < pixels {
				v.goes("ADD R2, R13")
			}
		}
		v.goes("ADD R4, R5")
		v.goes("SUBS $1, R11")
		v.goes("BNE %s", places)
		v.goes("MOVD job_src+16(R0), R13")
		v.goes("CBZ R13, %s", stores)
		v.goes("ADD R1, R13")
		move(10, 13, true)
		v.arm(func(w *neon.Writer) {
			for i := range pixels {
				w.FADD(16+i, 16+i, 10)
			}
		})
		v.label(stores)
		for i := range pixels {
			move(16+i, 7, false)
			v.goes("ADD R3, R7")
			v.goes("ADD R2, R6")
		}
		if i == 0 {
			v.goes("SUB $%d, R10", pixels)
			v.goes("B %s", block)
		}
		v.label(next)
	}
}
