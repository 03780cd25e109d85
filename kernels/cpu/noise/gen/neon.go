package main

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// Path NEON draws four blocks together: a register holds one number of each one's state, and
// boxMuller's steps are spelled for Arm.
//
// Registers: V0 to V3 the state, V4 to V10 scratch, V11 a constant for one instruction, V12 and
// V13 Philox's factors, V14 on the constants that fit. R0 where the numbers go, R1 the job, R2 the
// groups left, R3 the first block's number.
type neonNoise struct {
	*neon.Writer
	held map[uint32]int
}

const (
	anyConstant, factors, firstHeld = 11, 12, 14
)

// of is the register of a constant.
func (n neonNoise) of(bits uint32) int {
	if v, ok := n.held[bits]; ok {
		return v
	}
	n.Get(anyConstant, n.U32(bits))
	return anyConstant
}

func (n neonNoise) f32(x float32) int { return n.of(math.Float32bits(x)) }

// hold loads constants that a normal takes often.
func (n neonNoise) hold() {
	var all []uint32
	for _, x := range []float32{0x1p-32, 0x1p-33, -0x1p-32, -0x1p-33, 1, 0.5, -2, -2.12194440e-4, 0.693359375,
		turn, turn / 2} {
		all = append(all, math.Float32bits(x))
	}
	for i, bits := range append(all, 0xffffffff, 0x3f3504f3, 1<<29, 3<<30, 1<<31) {
		n.held[bits] = firstHeld + i
		n.Splat(firstHeld+i, bits)
	}
}

// fill writes a function that fills memory from whole groups of blocks.
func (n neonNoise) fill(verb string, normal bool) {
	n.Fn(verb+"NEON", 0, 16, fmt.Sprintf("func %sNEON(dst unsafe.Pointer, j *job)", verb))
	n.Op("MOVD dst+0(FP), R0")
	n.Op("MOVD j+8(FP), R1")
	n.Op("MOVD job_groups(R1), R2")
	n.Op("MOVD job_block(R1), R3")
	n.Splat(factors, 0xD2511F53)
	n.Splat(factors+1, 0xCD9E8D57)
	if normal {
		n.hold()
	}
	n.Label("group")
	n.blocks()
	if normal {
		n.boxMuller(0, 1)
		n.boxMuller(2, 3)
	}
	n.Op("VST4.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)")
	n.Op("SUBS $1, R2")
	n.Op("BNE group")
	n.Op("RET")
}

// blocks leaves the words of four blocks in registers 0 to 3.
func (n neonNoise) blocks() {
	for pair := range 2 {
		for i := range 2 {
			n.Op("VMOV R3, V%d.D[%d]", 4+pair, i)
			n.Op("ADD $1, R3")
		}
	}
	n.UZP1(0, 4, 5)
	n.UZP2(1, 4, 5)
	for i := range 2 {
		n.Op("ADD $(job_stream+%d), R1, R26", 4*i)
		n.LD1R(2+i, 26)
	}
	n.Op("ADD $job_keys, R1, R4")
	for range 10 {
		for i := range 2 {
			n.UMULL(4, 2*i, factors+i)
			n.UMULL2(5, 2*i, factors+i)
			n.UZP2(6+2*i, 4, 5) // upper words
			n.UZP1(7+2*i, 4, 5)
		}
		n.Op("VLD2R.P 8(R4), [V4.S4, V5.S4]")
		n.EOR(0, 8, 1)
		n.EOR(0, 0, 4)
		n.EOR(2, 6, 3)
		n.EOR(2, 2, 5)
		n.MOV(1, 9)
		n.MOV(3, 7)
	}
}

// boxMuller turns the words in registers x and y into normals.
func (n neonNoise) boxMuller(x, y int) {
	n.radius(x)
	n.circle(y)
	n.FMUL(y, x, 9)
	n.FMUL(x, x, 8)
}

// radius turns the words in register x into sqrt(-2 ln u).
func (n neonNoise) radius(x int) {
	const u, e, minus, p, z, f, t = 4, 5, 6, 7, 8, 4, 9
	n.UCVTF(u, x)
	n.FMUL(u, u, n.f32(0x1p-32))
	n.FADD(u, u, n.f32(0x1p-33))
	n.EOR(x, x, n.of(0xffffffff))
	n.UCVTF(minus, x)
	n.FMUL(minus, minus, n.f32(-0x1p-32))
	n.FADD(minus, minus, n.f32(-0x1p-33))
	n.SUB(e, u, n.of(0x3f3504f3))
	n.SSHR(e, e, 23)
	n.SHL(p, e, 23)
	n.SUB(f, u, p)
	n.FSUB(f, f, n.f32(1))
	n.CMEQ0(t, e)
	n.BIT(f, minus, t)
	n.SCVTF(e, e)
	n.FMUL(z, f, f)
	n.horner(f, p, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
	n.FMUL(p, p, f)
	n.FMUL(p, p, z)
	n.FMUL(t, e, n.f32(-2.12194440e-4))
	n.FADD(p, p, t)
	n.FMUL(z, z, n.f32(0.5))
	n.FSUB(p, p, z)
	n.FADD(f, f, p)
	n.FMUL(e, e, n.f32(0.693359375))
	n.FADD(e, e, f)
	n.FMUL(e, e, n.f32(-2))
	n.FSQRT(x, e)
}

// circle leaves the sine and cosine of the words in register y in 8 and 9.
func (n neonNoise) circle(y int) {
	const w, t, z, p, sin, cos = 4, 5, 6, 7, 8, 9
	n.ADD(w, y, n.of(1<<29))
	n.AND(t, w, n.of(3<<30))
	n.SUB(t, y, t)
	n.SCVTF(t, t)
	n.FMUL(t, t, n.f32(turn))
	n.FADD(t, t, n.f32(turn/2))
	n.FMUL(z, t, t)
	n.horner(z, p, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
	n.FMUL(p, p, z)
	n.FMUL(p, p, t)
	n.FADD(t, t, p)
	n.horner(z, p, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
	n.FMUL(p, p, z)
	n.FMUL(p, p, z)
	n.FMUL(z, z, n.f32(0.5))
	n.FSUB(p, p, z)
	n.FADD(p, p, n.f32(1))
	n.SHL(z, w, 1)
	n.CMLT0(sin, z) // bit 30 of w swaps sine and cosine
	n.MOV(cos, sin)
	n.BSL(sin, p, t)
	n.BSL(cos, t, p)
	n.EOR(z, z, w)
	n.AND(z, z, n.of(1<<31))
	n.EOR(cos, cos, z)
	n.AND(w, w, n.of(1<<31))
	n.EOR(sin, sin, w)
}

// horner is a polynomial at x into p, products and sums rounded apart.
func (n neonNoise) horner(x, p int, c ...float32) {
	n.FMUL(p, x, n.f32(c[0]))
	for i := 1; i < len(c); i++ {
		if i > 1 {
			n.FMUL(p, p, x)
		}
		n.FADD(p, p, n.f32(c[i]))
	}
}

func neonFile() []byte {
	n := neonNoise{neon.New("kernels/cpu/noise/gen"), map[uint32]int{}}
	n.fill("words", false)
	n.fill("normals", true)
	return n.Text()
}
