package main

import (
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// TestShareOfProductsNEON counts the instructions of attention's loops for one key, 16 queries and heads of 64
// numbers: three of five instructions multiply. Forward there are two products around the loops max and weigh; in the
// backward there are five, and the loop row.
func TestShareOfProductsNEON(t *testing.T) {
	product, err := os.ReadFile("../../gemm/neon_arm64.s")
	if err != nil {
		t.Fatal(err)
	}
	const perProduct = 64 * 16 / 4 // vectors multiplied for a key
	for _, kind := range []struct{ name, block, blockLoop string }{
		{"F32NEON", "f32NEON6x4", "four"},
		{"BF16NEON", "bf16NEON6x4", "step"},
	} {
		inBlock, ofBlock := count(t, string(product), kind.block, kind.blockLoop)
		for _, pass := range []struct {
			kernel   string
			loops    []string
			products float64
		}{
			{"weigh" + kind.name, []string{"max", "weigh"}, 2},
			{"grade" + kind.name, []string{"row"}, 5},
		} {
			multiplied := pass.products * perProduct
			all := multiplied * ofBlock / inBlock
			for _, label := range pass.loops {
				m, n := count(t, string(neonFile()), pass.kernel, label)
				multiplied += m
				all += n
			}
			t.Logf("%s with %.0f products: %.1f %% of %.0f instructions multiply", pass.kernel, pass.products, 100*multiplied/all, all)
			if multiplied < 0.60*all {
				t.Errorf("%s with %.0f products: %.1f %% of the instructions multiply, want 60", pass.kernel, pass.products, 100*multiplied/all)
			}
		}
	}
}

// count returns how many instructions of a loop multiply, and how many there are.
func count(t *testing.T, text, kernel, label string) (multiplied, all float64) {
	loop, err := neon.Loop(text, kernel, label)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range loop {
		if neon.Multiplies(line) {
			multiplied++
		}
	}
	return multiplied, float64(len(loop))
}
