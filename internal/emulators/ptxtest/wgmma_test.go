package ptxtest

import (
	"encoding/binary"
	"math"
	"testing"
)

// warpgroupText multiplies 64 rows of A with 8 columns of B, both 16 of k along memory with the swizzle of 128 bytes,
// which 128 threads bring as they lie from global memory. A thread stores its four sums as one number.
func warpgroupText(fence, wait string) string {
	return `
	mov.u32 	%r2, dk_shared;
	add.s32 	%r3, %r2, 1023;
	and.b32 	%r40, %r3, -1024;
	mov.u32 	%r4, %r1;
$L1:
	shl.b32 	%r5, %r4, 4;
	add.s32 	%r6, %r40, %r5;
	mul.wide.u32 	%rd4, %r4, 16;
	add.s64 	%rd5, %rd2, %rd4;
	ld.global.v4.u32 	{%r10, %r11, %r12, %r13}, [%rd5];
	st.shared.v4.u32 	[%r6], {%r10, %r11, %r12, %r13};
	add.s32 	%r4, %r4, 128;
	setp.lt.u32 	%p1, %r4, 576;
	@%p1 bra 	$L1;
	` + fence + `
	bar.sync 	0;
	shr.u32 	%r7, %r40, 4;
	cvt.u64.u32 	%rd6, %r7;
	or.b64  	%rd7, %rd6, 4611686293305294848;
	add.s64 	%rd8, %rd7, 512;
	wgmma.fence.sync.aligned;
	setp.eq.s32 	%p2, %r40, 0;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	` + wait + `
	add.rn.ftz.f32 	%f5, %f1, %f2;
	add.rn.ftz.f32 	%f6, %f3, %f4;
	fma.rn.ftz.f32 	%f7, %f6, 0f42000000, %f5;
	st.global.f32 	[%rd3], %f7;`
}

// TestWarpgroup: a product of a warpgroup comes from operands that lie as the document has them. Without a fence after
// the threads' stores, it ends the launch; without its wait, the sums are not there.
func TestWarpgroup(t *testing.T) {
	a := func(r, k int) float32 { return float32((r*7+k*3)%11 - 5) }
	b := func(k, c int) float32 { return float32((k*5+c*2)%13 - 6) }
	operands := make([]byte, 9216)
	put := func(start, r, k int, x float32) { // eight rows of 128 bytes; pieces of 16 moved about by the row
		at := start + r/8*1024 + r%8*128 + (k/8^r%8)*16 + k%8*2
		binary.LittleEndian.PutUint16(operands[at:], uint16(math.Float32bits(x)>>16))
	}
	for k := range 16 {
		for r := range 64 {
			put(0, r, k, a(r, k))
		}
		for c := range 8 {
			put(8192, c, k, b(k, c))
		}
	}
	sum := func(r, c int) (s float32) {
		for k := range 16 {
			s += a(r, k) * b(k, c)
		}
		return s
	}
	const fence, wait = "fence.proxy.async.shared::cta;", "wgmma.wait_group.sync.aligned 0;"
	for thread, got := range everyOrder(t, warpgroupText(fence, wait), 128, operands) {
		r, c := thread/32*16+thread%32/4, thread%4*2
		if want := sum(r, c) + sum(r, c+1) + 32*(sum(r+8, c)+sum(r+8, c+1)); math.Float32frombits(got) != want {
			t.Errorf("thread %d has %g, want %g", thread, math.Float32frombits(got), want)
		}
	}
	if _, err := play(t, warpgroupText("", wait), 128, ahead, operands); err == nil {
		t.Error("no fence between stores and a product that reads them")
	}
	out, err := play(t, warpgroupText(fence, "wgmma.wait_group.sync.aligned 1;"), 128, beside, operands)
	if err != nil || math.Float32frombits(out[0]) == sum(0, 0)+sum(0, 1)+32*(sum(8, 0)+sum(8, 1)) {
		t.Errorf("sums before their wait: %v", err)
	}
}

// TestPhases: a phase ends with its arrivals and bytes, and a wait for one that does not end is found.
func TestPhases(t *testing.T) {
	text := func(arrivals, bytes string) string {
		return `
	mov.u32 	%r2, dk_shared;
	setp.ne.s32 	%p1, %r1, 0;
	@%p1 bra 	$L1;
	mbarrier.init.shared::cta.b64 [%r2], ` + arrivals + `;
	fence.mbarrier_init.release.cluster;
$L1:
	bar.sync 	0;
	add.s32 	%r3, %r1, 1;
	shl.b32 	%r4, %r1, 2;
	add.s32 	%r5, %r2, %r4;
	st.shared.u32 	[%r5+64], %r3;
	@%p1 bra 	$L2;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], ` + bytes + `;
	bra 	$L3;
$L2:
	mbarrier.arrive.shared::cta.b64 _, [%r2];
$L3:
	{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%r2], 0; selp.u32 %r6, 1, 0, p; }
	setp.eq.s32 	%p2, %r6, 0;
	@%p2 bra 	$L3;
	xor.b32 	%r7, %r4, 128;
	add.s32 	%r8, %r2, %r7;
	ld.shared.u32 	%r9, [%r8+64];
	st.global.u32 	[%rd3], %r9;`
	}
	for i, got := range everyOrder(t, text("64", "0"), 64, nil) {
		if got != uint32(i^32)+1 {
			t.Errorf("thread %d has %d", i, got)
		}
	}
	for _, c := range [][2]string{{"65", "0"}, {"64", "16"}} {
		if _, err := play(t, text(c[0], c[1]), 64, behind, nil); err == nil {
			t.Errorf("%s arrivals, %s bytes: the phase ended without the last", c[0], c[1])
		}
	}
}
