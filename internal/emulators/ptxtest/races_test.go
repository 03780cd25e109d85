package ptxtest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// pass lets every thread store a number at its place in shared memory and read that of another, a number of bytes away.
func pass(away int, between string) string {
	return fmt.Sprintf(`
	mov.u32 	%%r2, dk_shared;
	shl.b32 	%%r3, %%r1, 2;
	add.s32 	%%r4, %%r2, %%r3;
	xor.b32 	%%r5, %%r3, %d;
	add.s32 	%%r6, %%r2, %%r5;
	st.shared.u32 	[%%r4], %%r1;
	%s
	ld.shared.u32 	%%r7, [%%r6];
	st.global.u32 	[%%rd3], %%r7;`, away, between)
}

// byHalves lets the second warp run the code behind the label, and the first the code before it.
func byHalves(first, second string) string {
	return "setp.gt.u32 %p1, %r1, 31; mov.u32 %r2, dk_shared; shl.b32 %r3, %r1, 2; and.b32 %r4, %r3, 127;" +
		"add.s32 %r5, %r2, %r4; @%p1 bra $L1;" + first + "bra $L2; $L1:" + second + "$L2:"
}

// copied lets a thread copy 16 bytes to its place and, after the code between, read those of another, a number of bytes
// away.
func copied(away int, between string) string {
	return fmt.Sprintf(`
	mov.u32 	%%r2, dk_shared;
	shl.b32 	%%r3, %%r1, 4;
	add.s32 	%%r4, %%r2, %%r3;
	xor.b32 	%%r5, %%r3, %d;
	add.s32 	%%r6, %%r2, %%r5;
	mul.wide.u32 	%%rd4, %%r1, 16;
	add.s64 	%%rd5, %%rd2, %%rd4;
	mov.u32 	%%r8, 16;
	cp.async.cg.shared.global [%%r4], [%%rd5], 16, %%r8;
	cp.async.commit_group;
	%s
	ld.shared.u32 	%%r7, [%%r6];
	st.global.u32 	[%%rd3], %%r7;`, away, between)
}

// TestRaces: accesses that nothing orders are found in every order of warps, also where results are right; with the
// right barriers there are no findings. The line of both accesses is named.
func TestRaces(t *testing.T) {
	phases := func(init, wait string) string {
		return "mov.u32 %r20, dk_shared; setp.ne.s32 %p3, %r1, 0; @%p3 bra $L0;" +
			"mbarrier.init.shared::cta.b64 [%r20+1024], 32; $L0:" + init + byHalves(
			"st.shared.u32 [%r5], %r1; mbarrier.arrive.shared::cta.b64 _, [%r2+1024];",
			wait+"ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd3], %r7;")
	}
	const await = "$L3: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+1024], 0; @!%p2 bra $L3;"
	products := func(wait string) string {
		return warpgroupText("fence.proxy.async.shared::cta;", "shl.b32 %r41, %r1, 4; add.s32 %r42, %r40, %r41;"+wait+
			"st.shared.u32 [%r42], %r1; wgmma.wait_group.sync.aligned 0;")
	}
	const waits = "cp.async.wait_group 0;"
	for name, c := range map[string]struct {
		races, clean string
		threads      int
	}{
		"a barrier":              {pass(128, ""), pass(128, "bar.sync 0;"), 64},
		"a warp's own barrier":   {pass(4, ""), pass(4, "bar.warp.sync -1;"), 32},
		"an exchange is none":    {pass(4, "shfl.sync.bfly.b32 %r8|%p1, %r1, 1, 31, -1;"), pass(4, "bar.sync 0;"), 32},
		"warps want the block's": {pass(128, "bar.warp.sync -1;"), pass(128, "bar.sync 0;"), 64},
		"a write after a read": {pass(128, "bar.sync 0;") + "st.shared.u32 [%r4], %r7;",
			pass(128, "bar.sync 0;") + "bar.sync 0; st.shared.u32 [%r4], %r7;", 64},
		"two writes": {"mov.u32 %r2, dk_shared; st.shared.u32 [%r2], %r1;",
			"mov.u32 %r2, dk_shared; setp.eq.s32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1;", 64},
		"copies, their wait":        {copied(0, ""), copied(0, waits), 32},
		"copies, a barrier alone":   {copied(0, "bar.sync 0;"), copied(0, waits), 64},
		"copies, a wait alone":      {copied(512, waits), copied(512, waits+"bar.sync 0;"), 64},
		"copies, one group too few": {copied(0, "cp.async.wait_group 1;"), copied(0, waits), 32},
		"copies, then a wait":       {copied(512, "bar.sync 0;"+waits), copied(512, waits+"bar.sync 0;"), 64},
		"a numbered barrier": {
			byHalves("st.shared.u32 [%r5], %r1; bar.sync 1, 32;", "bar.sync 2, 32; ld.shared.u32 %r7, [%r5];"),
			byHalves("st.shared.u32 [%r5], %r1; bar.arrive 1, 64;", "bar.sync 1, 64; ld.shared.u32 %r7, [%r5];"), 64},
		"who does not wait": {
			byHalves("bar.arrive 1, 64; ld.shared.u32 %r7, [%r5];", "st.shared.u32 [%r5], %r1; bar.sync 1, 64;"),
			byHalves("bar.sync 1, 64; ld.shared.u32 %r7, [%r5];", "st.shared.u32 [%r5], %r1; bar.arrive 1, 64;"), 64},
		"a phase":               {phases("bar.sync 0;", ""), phases("bar.sync 0;", await), 64},
		"a barrier's beginning": {phases("", await), phases("bar.sync 0;", await), 64},
		"a product's operands":  {products(""), products("wgmma.wait_group.sync.aligned 0; bar.sync 0;"), 128},
	} {
		t.Run(name, func(t *testing.T) {
			operands := make([]byte, 9216)
			for order := range arrangements {
				if _, err := play(t, c.races, c.threads, order, operands); err == nil {
					t.Errorf("order %d: no race", order)
				} else if text := err.Error(); !(strings.Contains(text, "a race") || strings.Contains(text, "no barrier at")) ||
					!strings.Contains(text, "line ") {
					t.Error(err)
				}
				if _, err := play(t, c.clean, c.threads, order, operands); err != nil {
					t.Errorf("order %d: %v", order, err)
				}
			}
		})
	}
}

// TestRacesOfBlocks: nothing orders blocks of a launch; launches are ordered.
func TestRacesOfBlocks(t *testing.T) {
	for body, races := range map[string]bool{
		"st.global.u32 [%rd3], %r1;":                            true,
		"ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;": true,
		"ld.global.u32 %r2, [%rd3];":                            false,
		"mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd4, %r2, 128; add.s64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], %r2;": false,
	} {
		m, err := parse(opening + body + "\n\tret;\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.link("k")
		if err != nil {
			t.Fatal(err)
		}
		g := newMemory()
		args := binary.LittleEndian.AppendUint64(nil, g.take(512))
		args = append(args, args...)
		for range 2 {
			if err = g.run(launch{p: p, grid: [2]int{2, 1}, threads: 32, args: args}); (err != nil) != races {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
}
