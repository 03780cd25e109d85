package ptxtest

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"
)

// TestProductFromMemory multiplies matrices that lie in memory as the document's fragments expect them, A by rows and B
// by columns or by rows (.trans), through ldmatrix and mma: each element of their product has its place.
func TestProductFromMemory(t *testing.T) {
	a := func(r, k int) float32 { return float32((r*7+k*3)%11 - 5) }
	b := func(k, c int) float32 { return float32((k*5+c*2)%13 - 6) }
	for _, turned := range []string{"", ".trans"} {
		operands := make([]byte, 1024)
		put := func(at int, x float32) {
			binary.LittleEndian.PutUint16(operands[at:], uint16(math.Float32bits(x)>>16))
		}
		for r := range 16 {
			for k := range 16 {
				put(2*(r*16+k), a(r, k))
				for c := range 8 {
					if turned == "" {
						put(512+2*(c*16+k), b(k, c))
					} else {
						put(512+2*(k*8+c), b(k, c))
					}
				}
			}
		}
		// Rows of A: lanes 0 to 15 those of its left half, 16 to 31 of its right one. Rows of B: 8 lanes to each of its
		// halves, once more for the remaining lanes.
		rowsOfB := "and.b32 %r10, %r1, 7; shl.b32 %r11, %r10, 5; and.b32 %r12, %r1, 8; shl.b32 %r13, %r12, 1;" +
			"add.s32 %r14, %r11, %r13;"
		if turned != "" {
			rowsOfB = "and.b32 %r10, %r1, 15; shl.b32 %r14, %r10, 4;"
		}
		for quarter := range 4 {
			out := everyOrder(t, `
	mov.u32 	%r2, dk_shared;
	shl.b32 	%r3, %r1, 5;
	add.s32 	%r4, %r2, %r3;
	mul.wide.u32 	%rd4, %r1, 32;
	add.s64 	%rd5, %rd2, %rd4;
	ld.global.v4.u32 	{%r5, %r6, %r7, %r8}, [%rd5];
	st.shared.v4.u32 	[%r4], {%r5, %r6, %r7, %r8};
	ld.global.v4.u32 	{%r5, %r6, %r7, %r8}, [%rd5+16];
	st.shared.v4.u32 	[%r4+16], {%r5, %r6, %r7, %r8};
	bar.sync 	0;
	and.b32 	%r15, %r1, 15;
	shl.b32 	%r16, %r15, 5;
	and.b32 	%r17, %r1, 16;
	add.s32 	%r18, %r16, %r17;
	add.s32 	%r19, %r2, %r18;
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20,%r21,%r22,%r23}, [%r19];
	`+rowsOfB+`
	add.s32 	%r24, %r2, %r14;
	ldmatrix.sync.aligned.m8n8.x4`+turned+`.shared.b16 {%r25,%r26,%r27,%r28}, [%r24+512];
	mov.f32 	%f1, 0f3F800000;
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
		{%f10,%f11,%f12,%f13},{%r20,%r21,%r22,%r23},{%r25,%r26},{%f1,%f1,%f1,%f1};
	and.b32 	%r30, %r1, 3;
	shl.b32 	%r31, %r30, 3;
	shr.u32 	%r32, %r1, 2;
	shl.b32 	%r33, %r32, 5;
	add.s32 	%r34, %r31, %r33;
	bar.sync 	0;
	add.s32 	%r35, %r2, %r34;
	st.shared.f32 	[%r35], %f10;
	st.shared.f32 	[%r35+4], %f11;
	st.shared.f32 	[%r35+256], %f12;
	st.shared.f32 	[%r35+260], %f13;
	bar.sync 	0;
	shl.b32 	%r36, %r1, 2;
	add.s32 	%r37, %r2, %r36;
	ld.shared.f32 	%f20, [%r37+`+strconv.Itoa(128*quarter)+`];
	st.global.f32 	[%rd3], %f20;`, 32, operands)
			for i, got := range out {
				r, c, want := i/8+4*quarter, i%8, float32(1)
				for k := range 16 {
					want += a(r, k) * b(k, c)
				}
				if math.Float32frombits(got) != want {
					t.Errorf("%s: element %d,%d is %g, want %g", turned, r, c, math.Float32frombits(got), want)
				}
			}
		}
	}
}
