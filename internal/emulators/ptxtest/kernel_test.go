package ptxtest

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// A kernel of these tests gets a place for results and one for operands: %rd1 and %rd2; %r1 is the thread, and %rd3 the
// place of its result of four bytes.
const opening = `
.version 8.0
.target sm_80
.address_size 64

.extern .shared .align 128 .b8 dk_shared[];

.visible .entry k(
	.param .align 8 .b8 k_param_0[16]
)
.maxntid 1024, 1, 1
{
	.reg .pred 	%p<20>;
	.reg .b16 	%rs<20>;
	.reg .f32 	%f<40>;
	.reg .b32 	%r<60>;
	.reg .b64 	%rd<20>;

	ld.param.u64 	%rd1, [k_param_0];
	ld.param.u64 	%rd2, [k_param_0+8];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd3, %r1, 4;
	add.s64 	%rd3, %rd1, %rd3;
`

// play runs a kernel's text over one block in one arrangement, and returns a result of four bytes for each thread.
func play(t *testing.T, body string, threads int, order arrangement, operands []byte) ([]uint32, error) {
	t.Helper()
	return playOn(t, newMemory(), body, threads, order, operands)
}

// playBlind is play without the check of races, so that their effect shows.
func playBlind(t *testing.T, body string, threads int, order arrangement, operands []byte) ([]uint32, error) {
	t.Helper()
	g := newMemory()
	g.blind = true
	return playOn(t, g, body, threads, order, operands)
}

func playOn(t *testing.T, g *deviceMemory, body string, threads int, order arrangement, operands []byte) ([]uint32,
	error) {
	t.Helper()
	m, err := parse(opening + body + "\n\tret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.link("k")
	if err != nil {
		return nil, err
	}
	to, from := g.take(4*threads), g.take(max(len(operands), 16))
	copy(g.bytes(from, len(operands)), operands)
	args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, to), from)
	p.launches = int(order)
	err = g.run(launch{p: p, grid: [2]int{1, 1}, threads: threads, shared: 12 << 10, args: args})
	var out []uint32
	for b := g.bytes(to, 4*threads); len(b) > 0; b = b[4:] {
		out = append(out, binary.LittleEndian.Uint32(b))
	}
	return out, err
}

// everyOrder is play in each arrangement, which must give the same.
func everyOrder(t *testing.T, body string, threads int, operands []byte) []uint32 {
	t.Helper()
	var first []uint32
	for order := range arrangements {
		out, err := play(t, body, threads, order, operands)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out
		}
		for i := range out {
			if out[i] != first[i] {
				t.Fatalf("thread %d: %#x in one order of warps, %#x in another", i, first[i], out[i])
			}
		}
	}
	return first
}

// Lanes part and loop for as long as each must; where their ways meet they exchange values again.
func TestBranches(t *testing.T) {
	out := everyOrder(t, `
	and.b32 	%r2, %r1, 31;
	mov.u32 	%r3, 0;
	and.b32 	%r4, %r1, 1;
	setp.eq.s32 	%p1, %r4, 0;
	@%p1 bra 	$L__BB0_2;
$L__BB0_1:
	add.s32 	%r3, %r3, 3;
	setp.lt.u32 	%p2, %r3, %r2;
	@%p2 bra 	$L__BB0_1;
$L__BB0_2:
	shfl.sync.bfly.b32 	%r5|%p3, %r3, 1, 31, -1;
	add.s32 	%r6, %r5, %r3;
	st.global.u32 	[%rd3], %r6;`, 64, nil)
	for i, got := range out {
		odd := i%32 | 1
		if want := uint32((odd + 2) / 3 * 3); got != want {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
}

// Functions called in a branch come back to their own callers.
func TestCalls(t *testing.T) {
	f := `.func  (.param .b32 func_retval0) twice(
	.param .b32 twice_param_0
)
{
	.reg .b32 	%r<9>;
	.reg .pred 	%p<2>;
	ld.param.u32 	%r1, [twice_param_0];
	shl.b32 	%r2, %r1, 1;
	st.param.b32 	[func_retval0+0], %r2;
	setp.gt.u32 	%p1, %r1, 7;
	@%p1 ret;
	add.s32 	%r2, %r2, 100;
	st.param.b32 	[func_retval0+0], %r2;
	ret;
}
`
	call := func(from, to string) string {
		return "{ // callseq\n.reg .b32 temp_param_reg;\n.param .b32 param0;\n" +
			"st.param.b32 [param0+0], " + from + ";\n.param .b32 retval0;\n" +
			"call.uni (retval0), \ntwice, \n(\nparam0\n);\nld.param.b32 " + to + ", [retval0+0];\n\t} // callseq\n"
	}
	body := "	setp.lt.u32 	%p1, %r1, 5;\n	mov.u32 	%r3, %r1;\n	@%p1 bra 	$L1;\n" +
		call("%r1", "%r3") + "$L1:\n" + call("%r3", "%r4") + "	st.global.u32 	[%rd3], %r4;\n"
	m, err := parse(strings.Replace(opening, ".visible", f+".visible", 1) + body + "	ret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.link("k")
	if err != nil {
		t.Fatal(err)
	}
	g := newMemory()
	to := g.take(128)
	args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, to), to)
	if err := g.run(launch{p: p, grid: [2]int{1, 1}, threads: 32, args: args}); err != nil {
		t.Fatal(err)
	}
	twice := func(x int) int {
		if x > 7 {
			return 2 * x
		}
		return 2*x + 100
	}
	for i := range 32 {
		want := twice(i)
		if i >= 5 {
			want = twice(want)
		}
		if got := int(binary.LittleEndian.Uint32(g.bytes(to+uint64(4*i), 4))); got != want {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
}

// The upper bits in the place of a register of 16 bits do not count.
func TestHalves(t *testing.T) {
	out := everyOrder(t, "mov.u16 %rs1, -1; mov.u32 %r2, 8; shr.u16 %rs2, %rs1, %r2; cvt.u32.u16 %r3, %rs2;"+
		"st.global.u32 [%rd3], %r3;", 32, nil)
	if out[0] != 0xff {
		t.Errorf("0xffff >> 8 is %#x", out[0])
	}
}

// exchangeText lets threads of different warps read others' stores to shared memory, with a barrier or without.
func exchangeText(barrier string) string {
	return `
	mov.u32 	%r2, dk_shared;
	shl.b32 	%r3, %r1, 2;
	add.s32 	%r4, %r2, %r3;
	st.shared.u32 	[%r4], %r1;
	` + barrier + `
	xor.b32 	%r5, %r3, 128;
	add.s32 	%r6, %r2, %r5;
	ld.shared.u32 	%r7, [%r6];
	st.global.u32 	[%rd3], %r7;`
}

func TestBarrier(t *testing.T) {
	for i, got := range everyOrder(t, exchangeText("bar.sync 	0;"), 64, nil) {
		if got != uint32(i^32) {
			t.Errorf("thread %d has %d", i, got)
		}
	}
	out, err := playBlind(t, exchangeText(""), 64, ahead, nil)
	if err != nil || out[0] == 32 {
		t.Errorf("without its barrier a warp that goes ahead has what another will write: %d, %v", out[0], err)
	}
}

// A silent fault of a device, or a hang, ends a launch with its place.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"beyond":      {"st.global.u32 [%rd3+4096], %r1;", "no memory"},
		"misaligned":  {"st.global.u32 [%rd3+2], %r1;", "no multiple"},
		"shared":      {"mov.u32 %r2, dk_shared; st.shared.u32 [%r2+12288], %r1;", "no memory"},
		"barrier":     {"setp.lt.u32 %p1, %r1, 32; @%p1 bra $L1; bar.sync 1; $L1: bar.sync 0;", "never reach"},
		"half a warp": {"setp.lt.u32 %p1, %r1, 7; @%p1 bar.sync 0;", "whole warp"},
		"a lane": {"setp.lt.u32 %p1, %r1, 7; @%p1 bra $L1; shfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1; bra $L2;" +
			"$L1: shfl.sync.bfly.b32 %r2|%p2, %r1, 2, 31, -1; $L2:", "never come"},
		"unknown":    {"popc.b32 %r2, %r1;", "does not know"},
		"kind":       {"add.s32 %r2, %r1, %rd1;", "another kind"},
		"undeclared": {"add.s32 %r2, %r1, %q1;", "not declared"},
	} {
		_, err := play(t, c.body, 64, ahead, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCopiesComeAtTheirWait: copied bytes are not there before their group is waited for.
func TestCopiesComeAtTheirWait(t *testing.T) {
	text := func(wait string) string {
		return `
	and.b32 	%r2, %r1, 3;
	shl.b32 	%r3, %r1, 4;
	mov.u32 	%r4, dk_shared;
	add.s32 	%r5, %r4, %r3;
	mul.wide.u32 	%rd4, %r1, 16;
	add.s64 	%rd5, %rd2, %rd4;
	mov.u32 	%r6, 8;
	cp.async.cg.shared.global [%r5], [%rd5], 16, %r6;
	cp.async.commit_group;
	cp.async.cg.shared.global [%r5+512], [%rd5], 16, %r6;
	cp.async.commit_group;
	` + wait + `
	shl.b32 	%r7, %r2, 2;
	add.s32 	%r8, %r5, %r7;
	ld.shared.u32 	%r9, [%r8];
	st.global.u32 	[%rd3], %r9;`
	}
	operands := make([]byte, 512)
	for i := range 128 {
		binary.LittleEndian.PutUint32(operands[4*i:], uint32(i+1))
	}
	for i, got := range everyOrder(t, text("cp.async.wait_group 1;"), 32, operands) {
		want := uint32(4*i + i%4 + 1)
		if i%4 >= 2 {
			want = 0 // beyond the 8 bytes that were read
		}
		if got != want {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
	for _, wait := range []string{"", "cp.async.wait_group 2;"} {
		out, err := playBlind(t, text(wait), 32, beside, operands)
		if err != nil || !math.IsNaN(float64(math.Float32frombits(out[0]))) {
			t.Errorf("%q: %#x before its wait, %v", wait, out[0], err)
		}
	}
}
