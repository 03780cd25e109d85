package main

import "github.com/darkroom-rl/darkroom/kernels/cpu/neon"

// Registers of path NEON: R0 the job, R1 codes, R2 where numbers go, R3 and R4 the block's scale and minimum, R5 the
// table, R6 the blocks left, R7 the groups left of a block; V0 to V3 are 16 numbers.
const (
	overV, scaleV, minV, halfV, oneV = 31, 30, 29, 28, 27
	lowV, nibbleV, planesV           = 26, 25, 20 // and three more planes
)

func neonFile() []byte {
	w := neon.New("kernels/cpu/unpack/gen")
	for _, to := range results {
		arm(w, "four"+to, to, func() {
			w.Op("VLD1.P 8(R1), [V4.B8]")
			w.USHR4(5, 4)
			w.AND(4, 4, nibbleV)
			w.MOV(6, lowV)
			w.BSL(6, 4, 5) // first of two
			w.MOV(7, lowV)
			w.BSL(7, 5, 4)
			w.ZIP1B(4, 6, 7)
			for i := range 4 {
				w.TBL(16+i, planesV+i, 4)
			}
			w.ZIP1B(4, 16, 17) // bytes 0 and 1 of the first eight
			w.ZIP2B(5, 16, 17)
			w.ZIP1B(6, 18, 19)
			w.ZIP2B(7, 18, 19)
			w.ZIP1H(0, 4, 6)
			w.ZIP2H(1, 4, 6)
			w.ZIP1H(2, 5, 7)
			w.ZIP2H(3, 5, 7)
		})
		arm(w, "eight"+to, to, func() {
			for i := range 16 {
				w.Op("MOVBU %d(R1), R%d", i, 8+i%4)
				w.Op("ADD R%d<<2, R5, R%d", 8+i%4, 12+i%4)
				w.Op("VLD1 (R%d), V%d.S[%d]", 12+i%4, i/4, i%4)
			}
			w.Op("ADD $16, R1")
		})
	}
	return w.Text()
}

// arm writes a function: for each block, for each group of 16 codes, look and the arithmetic after it.
func arm(w *neon.Writer, name, to string, look func()) {
	name += "NEON"
	w.Fn(name, 0, 8, "func "+name+"(a *job)")
	w.Op("MOVD a+0(FP), R0")
	for i, field := range []string{"codes", "dst", "scale", "min", "table", "blocks"} {
		w.Op("MOVD job_%s(R0), R%d", field, 1+i)
	}
	w.Op("ADD $job_over, R0, R8")
	w.LD1R(overV, 8)
	w.Op("ADD $job_low, R0, R8")
	w.LD1R(lowV, 8)
	w.Splat(halfV, 0x7fff)
	w.Splat(oneV, 1)
	w.Splat(nibbleV, 0x0f0f0f0f)
	w.Op("ADD $job_planes, R0, R8")
	w.Op("VLD1 (R8), [V20.B16, V21.B16, V22.B16, V23.B16]")
	w.Op("MOVD job_scaleStep(R0), R20")
	w.Op("MOVD job_minStep(R0), R21")
	w.Op("MOVD job_groups(R0), R22")
	w.Label("block")
	w.LD1R(scaleV, 3)
	w.LD1R(minV, 4)
	w.Op("ADD R20, R3")
	w.Op("ADD R21, R4")
	w.Op("MOVD R22, R7")
	w.Label("group")
	look()
	for x := range 4 {
		w.FMUL(x, x, scaleV)
		w.FMUL(x, x, overV)
		w.FSUB(x, x, minV)
	}
	switch to {
	case "F32":
		w.Op("VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R2)")
	case "BF16":
		for x := range 4 { // results that are NaN are quiet, and stay
			w.USHR(16, x, 16)
			w.AND(16, 16, oneV)
			w.ADD(16, 16, halfV)
			w.FCMEQ(17, x, x)
			w.AND(16, 16, 17)
			w.ADD(x, x, 16)
		}
		w.SHRN(4, 0)
		w.SHRN2(4, 1)
		w.SHRN(5, 2)
		w.SHRN2(5, 3)
		w.Op("VST1.P [V4.B16, V5.B16], 32(R2)")
	case "F16":
		w.FCVTNH(4, 0)
		w.FCVTNH2(4, 1)
		w.FCVTNH(5, 2)
		w.FCVTNH2(5, 3)
		w.Op("VST1.P [V4.B16, V5.B16], 32(R2)")
	}
	w.Op("SUBS $1, R7")
	w.Op("BNE group")
	w.Op("SUBS $1, R6")
	w.Op("BNE block")
	w.Op("RET")
}
