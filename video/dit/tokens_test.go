package dit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// ranksOf are benches that share the tokens of each clip, and where they meet.
func ranksOf(n int, o autograd.Options, bench func(autograd.Options) *bench) (all []*bench, m *exchange.Meeting) {
	m = &exchange.Meeting{Ranks: slices.Repeat([]kernels.Backend{ref.Backend{}}, n)}
	m.Wire = &exchange.Host{Ranks: m.Ranks}
	for r := range n {
		o.Tokens = &autograd.Tokens{Rank: r, Ranks: n, Meeting: m}
		all = append(all, bench(o))
	}
	return all, m
}

// runAll is run of all ranks at once: their outputs, and their gradients by the tree.
func runAll(t *testing.T, ranks []*bench, m *exchange.Meeting, times []float32, clips ...int) (outs [][]float32, sums [][]float32) {
	t.Helper()
	outs = make([][]float32, len(ranks))
	grads := make([][][]float32, len(ranks))
	err := exchange.Team{Stop: func() { m.Abort(errors.New("another rank has failed")) }}.Each(len(ranks), func(r int) error {
		outs[r], grads[r] = ranks[r].run(times, clips...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var tree func(lo, hi, k int) []float32
	tree = func(lo, hi, k int) []float32 {
		if hi-lo == 1 {
			return grads[lo][k]
		}
		mid := exchange.Middle(lo, hi)
		return kerneltest.Sum([][]float32{tree(lo, mid, k), tree(mid, hi, k)})
	}
	for k := range grads[0] {
		sums = append(sums, tree(0, len(ranks), k))
	}
	return outs, sums
}

// TestTokens: ranks that share a clip's tokens have the outputs of one, to the last bit, with shares of 18 tokens that
// are equal and with others, and its gradients but for rounding; with an adapter, and of all parameters; in any batch,
// with blocks that run again and without. In bf16 each rank rounds its part of a condition's gradient.
func TestTokens(t *testing.T) {
	four := tiny
	four.Heads, four.Added = 4, 32
	lora := func(o autograd.Options) *bench {
		b := newBenchOf(t, four, o)
		if _, err := b.params.AddLoRA(nn.LoRA{Rank: 2, Alpha: 4, Targets: []string{"to_q", "to_k", "add_k_proj", "to_out.0", "ffn.net.0.proj", "proj_out"}, Key: rng.New(8)}); err != nil {
			t.Fatal(err)
		}
		for i, p := range b.params.Trained() { // B is zero when an adapter is new
			x := p.Value.F32()
			rng.New(9).Step(i).Normal(x, 0)
			p.Value.UploadF32(x)
			p.Updated()
		}
		return b
	}
	full := func(o autograd.Options) *bench { return newBenchOf(t, four, o, ".*") }
	for name, bench := range map[string]func(autograd.Options) *bench{"adapter": lora, "full": full} {
		for _, o := range []autograd.Options{{Train: true}, {DType: kernels.BF16, Math: kernels.MathBF16, Train: true}} {
			t.Run(fmt.Sprintf("%s %v", name, o.DType), func(t *testing.T) {
				want, grads := bench(o).run([]float32{900, 300}, 4, 5)
				for _, n := range []int{2, 4} {
					again := o
					again.Checkpoint = autograd.AllBlocks
					ranks, m := ranksOf(n, o, bench)
					outs, sums := runAll(t, ranks, m, []float32{900, 300}, 4, 5)
					ranks, m = ranksOf(n, again, bench)
					_, rerun := runAll(t, ranks, m, []float32{900, 300}, 4, 5)
					for r, out := range outs {
						if !slices.Equal(out, want) {
							t.Fatalf("rank %d of %d has other outputs", r, n)
						}
					}
					for k := range sums {
						if !slices.Equal(sums[k], rerun[k]) {
							t.Errorf("%d ranks, gradient %d: blocks that run again give another", n, k)
						}
						if d := distance(sums[k], grads[k]); d > map[kernels.DType]float64{kernels.F32: 2e-6, kernels.BF16: 3e-2}[o.DType] {
							t.Errorf("%d ranks, gradient %d is off by %g of its length", n, k, d)
						}
					}
				}
			})
		}
	}
}

// distance is that of x from y, in y's length.
func distance(x, y []float32) float64 {
	d, n := 0.0, 0.0
	for i, v := range y {
		e := float64(x[i]) - float64(v)
		d, n = d+float64(e*e), n+float64(float64(v)*float64(v))
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / n)
}
