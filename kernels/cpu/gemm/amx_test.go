//go:build amd64 && !noasm

package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/emulators/amxemu"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// TestEmulatedAMX runs TestAMX where there is no AMX, instruction by instruction.
func TestEmulatedAMX(t *testing.T) {
	switch {
	case isa.Best() >= isa.AMX:
		t.Skip("this CPU has AMX: the other tests run it")
	case isa.Best() < isa.BF16:
		t.Skipf("all but the tiles runs on the CPU, which offers at most %s; it takes %s", isa.Best(), isa.BF16)
	}
	amxemu.Run(t, "TestAMX")
}

// TestAMX holds bf16 products on path AMX to ref, bit by bit.
func TestAMX(t *testing.T) {
	if isa.Best() < isa.AMX && !amxemu.Traced() {
		t.Skipf("this CPU offers at most %s; TestEmulatedAMX runs this in an emulator", isa.Best())
	}
	all := []*Engine{New(isa.AMX, 1), New(isa.AMX, 2)}
	r := rand.New(rand.NewPCG(3, 4))
	sizes := []int{0, 1, 2, 15, 16, 17, 31, 32, 33, 48, 65, 97}
	any := func() int { return sizes[r.IntN(len(sizes))] }
	cases := 0
	one := func(m, n, k int) {
		s := randomShape(r, m, n, k)
		s.math = kernels.MathBF16
		check(t, s, all)
		cases++
	}
	for _, a := range sizes {
		for _, b := range sizes {
			one(a, any(), b)
			one(a, b, any())
		}
	}
	for range 4 {
		one(20+r.IntN(100), 20+r.IntN(80), 500+r.IntN(700)) // several chunks
	}
	t.Logf("%d cases, each with 1 and 2 threads", cases)
}
