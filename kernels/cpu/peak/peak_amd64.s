//go:build amd64 && !noasm

#include "textflag.h"

// The operands are random numbers in (0, 1), so no sum comes near a denormal or
// an overflow, and MXCSR does not matter.

// A round: 12 independent sums, 12 x 8 multiply-adds.
// func fmaAVX2(x *float32, rounds int)
TEXT ·fmaAVX2(SB), NOSPLIT, $0-16
	MOVQ    x+0(FP), SI
	MOVQ    rounds+8(FP), CX
	VMOVUPS 0(SI), Y12
	VMOVUPS 32(SI), Y13
	VMOVUPS 64(SI), Y14
	VMOVUPS 96(SI), Y15
	VXORPS  Y0, Y0, Y0
	VXORPS  Y1, Y1, Y1
	VXORPS  Y2, Y2, Y2
	VXORPS  Y3, Y3, Y3
	VXORPS  Y4, Y4, Y4
	VXORPS  Y5, Y5, Y5
	VXORPS  Y6, Y6, Y6
	VXORPS  Y7, Y7, Y7
	VXORPS  Y8, Y8, Y8
	VXORPS  Y9, Y9, Y9
	VXORPS  Y10, Y10, Y10
	VXORPS  Y11, Y11, Y11

loop:
	VFMADD231PS Y12, Y14, Y0
	VFMADD231PS Y13, Y14, Y1
	VFMADD231PS Y12, Y15, Y2
	VFMADD231PS Y13, Y15, Y3
	VFMADD231PS Y12, Y14, Y4
	VFMADD231PS Y13, Y14, Y5
	VFMADD231PS Y12, Y15, Y6
	VFMADD231PS Y13, Y15, Y7
	VFMADD231PS Y12, Y14, Y8
	VFMADD231PS Y13, Y14, Y9
	VFMADD231PS Y12, Y15, Y10
	VFMADD231PS Y13, Y15, Y11
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET

#define ZERO4(a, b, c, d) \
	VPXORQ a, a, a; \
	VPXORQ b, b, b; \
	VPXORQ c, c, c; \
	VPXORQ d, d, d

#define FMA4(a, b, c, d) \
	VFMADD231PS Z24, Z28, a; \
	VFMADD231PS Z25, Z29, b; \
	VFMADD231PS Z26, Z30, c; \
	VFMADD231PS Z27, Z31, d

// A round: 24 independent sums, 24 x 16 multiply-adds.
// func fmaAVX512(x *float32, rounds int)
TEXT ·fmaAVX512(SB), NOSPLIT, $0-16
	MOVQ    x+0(FP), SI
	MOVQ    rounds+8(FP), CX
	VMOVUPS 0(SI), Z24
	VMOVUPS 64(SI), Z25
	VMOVUPS 128(SI), Z26
	VMOVUPS 192(SI), Z27
	VMOVUPS 256(SI), Z28
	VMOVUPS 320(SI), Z29
	VMOVUPS 384(SI), Z30
	VMOVUPS 448(SI), Z31
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)

loop:
	FMA4(Z0, Z1, Z2, Z3)
	FMA4(Z4, Z5, Z6, Z7)
	FMA4(Z8, Z9, Z10, Z11)
	FMA4(Z12, Z13, Z14, Z15)
	FMA4(Z16, Z17, Z18, Z19)
	FMA4(Z20, Z21, Z22, Z23)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// VDPBF16PS Zd, Za, Zb is 62 p0 p1 48 52 modrm, which Go's assembler does not
// know. Here Za is Z12 or Z13 (p1 = 1E, 16), Zb is Z14 or Z15 (modrm C6, C7
// plus 8·d), and d is below 16 (p0 = D2 for d < 8, else 52).
#define DOT(p0, p1, modrm) \
	BYTE $0x62; BYTE $p0; BYTE $p1; BYTE $0x48; BYTE $0x52; BYTE $modrm

// A round: 12 independent sums, 12 x 32 products.
// func dotBF16(x *float32, rounds int)
TEXT ·dotBF16(SB), NOSPLIT, $0-16
	MOVQ    x+0(FP), SI
	MOVQ    rounds+8(FP), CX
	VMOVUPS 0(SI), Z12
	VMOVUPS 64(SI), Z13
	VMOVUPS 128(SI), Z14
	VMOVUPS 192(SI), Z15
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)

loop:
	DOT(0xD2, 0x1E, 0xC6) // Z0 += Z12·Z14
	DOT(0xD2, 0x16, 0xCE) // Z1 += Z13·Z14
	DOT(0xD2, 0x1E, 0xD7) // Z2 += Z12·Z15
	DOT(0xD2, 0x16, 0xDF) // Z3 += Z13·Z15
	DOT(0xD2, 0x1E, 0xE6) // Z4 += Z12·Z14
	DOT(0xD2, 0x16, 0xEE) // Z5 += Z13·Z14
	DOT(0xD2, 0x1E, 0xF7) // Z6 += Z12·Z15
	DOT(0xD2, 0x16, 0xFF) // Z7 += Z13·Z15
	DOT(0x52, 0x1E, 0xC6) // Z8 += Z12·Z14
	DOT(0x52, 0x16, 0xCE) // Z9 += Z13·Z14
	DOT(0x52, 0x1E, 0xD7) // Z10 += Z12·Z15
	DOT(0x52, 0x16, 0xDF) // Z11 += Z13·Z15
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// TILELOADD 0(SI)(DI*1), Tn and TDPBF16PS Td, Ta, Tb (bytes: see below).
#define TILELOAD(modrm) \
	BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x4B; BYTE $modrm; BYTE $0x3E

#define TDP(v2, modrm) \
	BYTE $0xC4; BYTE $0xE2; BYTE $v2; BYTE $0x5C; BYTE $modrm

#define TILEZERO(modrm) \
	BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $modrm

// A round: 2 x 2 tiles, 4 x 16 x 16 x 32 products.
// func tilesAMX(x *float32, config *tileConfig, rounds int)
TEXT ·tilesAMX(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ config+8(FP), AX
	MOVQ rounds+16(FP), CX
	MOVQ $64, DI
	BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0x00 // LDTILECFG (AX)
	TILELOAD(0x24) // T4
	ADDQ $1024, SI
	TILELOAD(0x2C) // T5
	ADDQ $1024, SI
	TILELOAD(0x34) // T6
	ADDQ $1024, SI
	TILELOAD(0x3C) // T7
	TILEZERO(0xC0) // T0
	TILEZERO(0xC8) // T1
	TILEZERO(0xD0) // T2
	TILEZERO(0xD8) // T3

loop:
	TDP(0x4A, 0xC4) // T0 += T4·T6
	TDP(0x42, 0xCC) // T1 += T4·T7
	TDP(0x4A, 0xD5) // T2 += T5·T6
	TDP(0x42, 0xDD) // T3 += T5·T7
	DECQ CX
	JNZ  loop
	BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0 // TILERELEASE
	RET

// func readAVX2(x *uint64, lines int) uint64
TEXT ·readAVX2(SB), NOSPLIT, $0-24
	MOVQ  x+0(FP), SI
	MOVQ  lines+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	SHRQ  $2, CX
	JZ    done

loop:
	VPXOR 0(SI), Y0, Y0
	VPXOR 32(SI), Y1, Y1
	VPXOR 64(SI), Y2, Y2
	VPXOR 96(SI), Y3, Y3
	VPXOR 128(SI), Y0, Y0
	VPXOR 160(SI), Y1, Y1
	VPXOR 192(SI), Y2, Y2
	VPXOR 224(SI), Y3, Y3
	ADDQ  $256, SI
	DECQ  CX
	JNZ   loop

done:
	VPXOR Y1, Y0, Y0
	VPXOR Y3, Y2, Y2
	VPXOR Y2, Y0, Y0
	VMOVQ X0, AX
	MOVQ  AX, ret+16(FP)
	VZEROUPPER
	RET

// func readAVX512(x *uint64, lines int) uint64
TEXT ·readAVX512(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ lines+8(FP), CX
	ZERO4(Z0, Z1, Z2, Z3)
	SHRQ $2, CX
	JZ   done

loop:
	VPXORQ 0(SI), Z0, Z0
	VPXORQ 64(SI), Z1, Z1
	VPXORQ 128(SI), Z2, Z2
	VPXORQ 192(SI), Z3, Z3
	ADDQ   $256, SI
	DECQ   CX
	JNZ    loop

done:
	VPXORQ Z1, Z0, Z0
	VPXORQ Z3, Z2, Z2
	VPXORQ Z2, Z0, Z0
	VMOVQ  X0, AX
	MOVQ   AX, ret+16(FP)
	VZEROUPPER
	RET
