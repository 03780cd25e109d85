//go:build arm64 && !noasm

#include "textflag.h"

#define ZERO4(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16; \
	VEOR b.B16, b.B16, b.B16; \
	VEOR c.B16, c.B16, c.B16; \
	VEOR d.B16, d.B16, d.B16

#define FMA4(a, b, c, d) \
	VFMLA V28.S4, V24.S4, a.S4; \
	VFMLA V29.S4, V25.S4, b.S4; \
	VFMLA V30.S4, V26.S4, c.S4; \
	VFMLA V31.S4, V27.S4, d.S4

// A round: 24 independent sums, 24 x 4 multiply-adds.
// func fmaNEON(x *float32, rounds int)
TEXT ·fmaNEON(SB), NOSPLIT, $0-16
	MOVD  x+0(FP), R0
	MOVD  rounds+8(FP), R1
	VLD1.P 64(R0), [V24.S4, V25.S4, V26.S4, V27.S4]
	VLD1  (R0), [V28.S4, V29.S4, V30.S4, V31.S4]
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	ZERO4(V8, V9, V10, V11)
	ZERO4(V12, V13, V14, V15)
	ZERO4(V16, V17, V18, V19)
	ZERO4(V20, V21, V22, V23)

loop:
	FMA4(V0, V1, V2, V3)
	FMA4(V4, V5, V6, V7)
	FMA4(V8, V9, V10, V11)
	FMA4(V12, V13, V14, V15)
	FMA4(V16, V17, V18, V19)
	FMA4(V20, V21, V22, V23)
	SUBS  $1, R1
	BNE   loop
	RET

// The lines are xored together, so that none of them is left out.
// func readNEON(x *uint64, lines int) uint64
TEXT ·readNEON(SB), NOSPLIT, $0-24
	MOVD x+0(FP), R0
	MOVD lines+8(FP), R1
	ZERO4(V16, V17, V18, V19)

loop:
	VLD1.P 64(R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R0), [V4.B16, V5.B16, V6.B16, V7.B16]
	VEOR   V0.B16, V16.B16, V16.B16
	VEOR   V1.B16, V17.B16, V17.B16
	VEOR   V2.B16, V18.B16, V18.B16
	VEOR   V3.B16, V19.B16, V19.B16
	VEOR   V4.B16, V16.B16, V16.B16
	VEOR   V5.B16, V17.B16, V17.B16
	VEOR   V6.B16, V18.B16, V18.B16
	VEOR   V7.B16, V19.B16, V19.B16
	SUBS   $2, R1
	BGT    loop
	VMOV   V16.D[0], R2
	MOVD   R2, ret+16(FP)
	RET
