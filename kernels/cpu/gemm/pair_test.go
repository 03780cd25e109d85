package gemm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// adapted is an adapter's layer, with a gate every `each` rows (0: none), and a residual.
func (e *Engine) adapted(m, n, k, rank, each int) *kernels.Gemm {
	const d, math = kernels.BF16, kernels.MathBF16
	g := &kernels.Gemm{Layout: kernels.NT, Math: math, A: randomMat(d, m, k), W: e.packed(randomMat(d, n, k), math), C: randomMat(d, m, n),
		Pair: &kernels.Pair{A: randomMat(d, m, rank), W: e.packed(randomMat(d, n, rank), math), Alpha: 0.75}}
	if each > 0 {
		g.GateRows, g.Gate, g.Residual = each, randomMat(d, (m+each-1)/each, n), randomMat(d, m, n)
		g.Pre, g.Pair.Pre = randomMat(d, m, n), randomMat(kernels.F32, m, n)
	}
	return g
}

// TestPairBlocks: blocks of rows change no bit, wherever samples end.
func TestPairBlocks(t *testing.T) {
	const m, n = 900, 5500 // a block has 384 rows
	if PairScratch(m, n) != 4*n*384 {
		t.Fatal(PairScratch(m, n))
	}
	e := New(isa.Best(), 2)
	for _, each := range []int{0, 1, 100, 383, 385, 450, 900} {
		g := e.adapted(m, n, 8, 2, each)
		want, pair := *g, *g.Pair
		want.C, want.Pre, pair.Pre, want.Pair = clone(g.C), clone(g.Pre), clone(g.Pair.Pre), &pair
		first, second := want.Apart(randomMat(kernels.F32, m, n))
		e.Gemm(first, threaded)
		e.Gemm(second, threaded)
		e.Gemm(g, threaded)
		for _, x := range [][2]kernels.Mat{{g.C, want.C}, {g.Pre, want.Pre}, {g.Pair.Pre, pair.Pre}} {
			if err := same(x[0], x[1]); err != nil {
				t.Errorf("a gate every %d rows: %v", each, err)
			}
		}
	}
}

// BenchmarkPair times adapters' layers by blocks, and with the pair's sums of all rows in memory.
func BenchmarkPair(b *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		b.Skip(err)
	}
	e := New(path, runtime.NumCPU())
	for _, s := range [][2]int{{974, 1536}, {4096, 1536}, {5074, 3072}} {
		g := e.adapted(s[0], s[1], s[1], 32, s[0]/2)
		u := randomMat(kernels.F32, s[0], s[1])
		b.Run(fmt.Sprintf("blocks/%dx%d", s[0], s[1]), func(b *testing.B) {
			for b.Loop() {
				e.Gemm(g, threaded)
			}
		})
		b.Run(fmt.Sprintf("apart/%dx%d", s[0], s[1]), func(b *testing.B) {
			first, second := g.Apart(u)
			for b.Loop() {
				e.Gemm(first, threaded)
				e.Gemm(second, threaded)
			}
		})
	}
}
