package peak

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// TestPeaks runs every loop of every path that this CPU has. The bounds only
// catch a loop that does not do its work (or a clock that does not run): one core
// does between 0.1 and 1,000 GF/s of fp32 and 10,000 of bf16, and reads between 0.5 and 2,000 GB/s.
func TestPeaks(t *testing.T) {
	for _, p := range isa.Paths() {
		f, b, r := F32(p, 1), BF16(p, 1), Read(p, 1, sizeL2)
		t.Logf("%-7s f32 %.1f GF/s, bf16 %.1f GF/s, L2 %.1f GB/s", p, f, b, r)
		if !(f > 0.1 && f < 1000) {
			t.Errorf("%s: f32 %g GF/s", p, f)
		}
		if !(b > 0.1 && b < 10000) {
			t.Errorf("%s: bf16 %g GF/s", p, b)
		}
		if !(r > 0.5 && r < 2000) {
			t.Errorf("%s: L2 %g GB/s", p, r)
		}
	}
	if testing.Short() {
		return
	}
	for _, threads := range []int{1, 2} {
		t.Logf("%+v", Measure(isa.Best(), threads))
	}
}

// TestRead: reading returns nothing useful, but it must touch every line it says
// and none beyond; a difference in any word of the first column shows in the result.
func TestRead(t *testing.T) {
	x := make([]uint64, 8*8)
	for _, p := range isa.Paths() {
		clear(x)
		for line := range 8 {
			x[8*line] ^= 1 << line
			if got := read(p, x); got != 1<<(line+1)-1 {
				t.Errorf("%s: after line %d: %#x", p, line, got)
			}
		}
	}
}
