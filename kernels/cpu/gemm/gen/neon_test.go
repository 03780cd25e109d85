package main

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// A core's work in a cycle, as its makers publish it: instructions on its vector pipes, loads of 16 bytes, and
// operations in all.
var cores = []struct {
	name                string
	pipes, loads, width float64
}{
	{"Apple M1 to M4", 4, 3, 8},
	{"Neoverse V1 and V2", 4, 3, 8},
	{"Neoverse N1", 2, 2, 4},
}

// TestShareOfProducts counts the inner loops of the largest blocks: three of four instructions are
// products. It logs how much of a core's peak that allows. The model has no latencies (24 sums are
// more than four pipes of four cycles need) and no caches; a pair is two loads or stores, and an
// address that moves on is an operation of its own.
func TestShareOfProducts(t *testing.T) {
	for _, c := range []struct{ kernel, label string }{{"f32NEON6x4", "four"}, {"bf16NEON6x4", "step"}} {
		loop, err := neon.Loop(string(neonFile()), c.kernel, c.label)
		if err != nil {
			t.Fatal(err)
		}
		var all, products, vector, loads, operations float64
		for _, line := range loop {
			all++
			cost := 1.0
			switch {
			case neon.Multiplies(line):
				products++
				vector++
			case strings.HasPrefix(line, "WORD"):
				vector++
			case strings.HasPrefix(line, "FLDPQ"):
				loads += 2
				cost = 2
			case strings.HasPrefix(line, "FMOVQ.P"):
				loads++
				cost = 2
			case strings.HasPrefix(line, "FSTPQ"):
				cost = 2
			}
			operations += cost
		}
		t.Logf("%s: %.0f instructions, %.0f products: %.1f %%", c.kernel, all, products, 100*products/all)
		if products < 0.75*all {
			t.Errorf("%s: %.1f %% of the instructions are products, want 75", c.kernel, 100*products/all)
		}
		for _, core := range cores {
			cycles := max(vector/core.pipes, loads/core.loads, operations/core.width)
			t.Logf("%s on %s: %.1f cycles (pipes %.1f, loads %.1f, width %.1f): %.0f %% of its peak",
				c.kernel, core.name, cycles, vector/core.pipes, loads/core.loads, operations/core.width, 100*products/core.pipes/cycles)
		}
	}
}
