//go:build amd64 && !noasm

package cpu

import (
	"flag"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/emulators/amxemu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

var long = flag.Bool("long", false, "run all operations with tiles in the emulator")

// TestEmulatedAMX runs TestTiles where there is no AMX.
func TestEmulatedAMX(t *testing.T) {
	switch {
	case isa.Best() >= isa.AMX:
		t.Skip("this CPU has AMX: the other tests run it")
	case isa.Best() < isa.BF16:
		t.Skipf("all but the tiles runs on the CPU, which offers at most %s; it takes %s", isa.Best(), isa.BF16)
	case !*long:
		t.Skip("package gemm runs its tiles in the emulator: -long takes all operations, .ci/run amx")
	}
	amxemu.Run(t, "TestTiles")
}

// TestTiles holds path AMX to ref, in an emulator.
func TestTiles(t *testing.T) {
	if !amxemu.Traced() {
		t.Skip("TestEmulatedAMX runs this in an emulator; with AMX, TestConformance does")
	}
	b := NewWith(Options{Path: isa.AMX, Threads: 2})
	defer b.Close()
	kerneltest.Run(t, b)
}
