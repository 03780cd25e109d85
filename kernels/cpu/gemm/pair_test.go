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

// TestPair: one product with a pair has the bits of the two that it is, on all paths, wherever samples end.
func TestPair(t *testing.T) {
	for _, path := range isa.Paths() {
		testPair(t, New(path, 2), 450, 200, 40, 6)
		testPair(t, shallow(path, 2), 450, 200, 800, 6)
		testPair(t, shallow(path, 2), 450, 800, 40, 6)
		testPair(t, shallow(path, 2), 198, 40, 40, 800) // one part of k has no room for the rank
	}
}

func testPair(t *testing.T, e *Engine, m, n, k, rank int) {
	for _, each := range []int{0, 1, 100, 191, 193, 450} {
		g := e.adapted(m, n, k, rank, each)
		want, pair := *g, *g.Pair
		want.C, want.Pre, pair.Pre, want.Pair = clone(g.C), clone(g.Pre), clone(g.Pair.Pre), &pair
		first, second := want.Apart(randomMat(kernels.F32, m, n))
		e.Gemm(first, threaded)
		e.Gemm(second, threaded)
		e.Gemm(g, threaded)
		for _, x := range [][2]kernels.Mat{{g.C, want.C}, {g.Pre, want.Pre}, {g.Pair.Pre, pair.Pre}} {
			if err := same(x[0], x[1]); err != nil {
				t.Errorf("%s, %d x %d x %d, a gate every %d rows: %v", unitOf(e), m, n, k, each, err)
			}
		}
	}
	back := e.adapted(m, n, k, rank, 0)
	back.Layout, back.A, back.C = kernels.NN, randomMat(kernels.BF16, m, n), randomMat(kernels.BF16, m, k)
	back.Residual = randomMat(kernels.BF16, m, k)
	back.Pair = &kernels.Pair{A: back.Pair.A, B: randomMat(kernels.F32, rank, k), Alpha: 0.75}
	want := *back
	want.C = clone(back.C)
	first, second := want.Apart(kernels.Mat{})
	e.Gemm(first, threaded)
	e.Gemm(second, threaded)
	e.Gemm(back, threaded)
	if err := same(back.C, want.C); err != nil {
		t.Errorf("%s, %d x %d x %d, backward: %v", unitOf(e), m, n, k, err)
	}
}

// BenchmarkPair times adapters' layers as one product, and as two with the pair's sums of all rows in memory.
func BenchmarkPair(b *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		b.Skip(err)
	}
	e := New(path, runtime.NumCPU())
	for _, s := range [][2]int{{1152, 128}, {974, 1536}, {4096, 1536}, {5074, 3072}} {
		g := e.adapted(s[0], s[1], s[1], 32, s[0]/2)
		u := randomMat(kernels.F32, s[0], s[1])
		b.Run(fmt.Sprintf("one/%dx%d", s[0], s[1]), func(b *testing.B) {
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
