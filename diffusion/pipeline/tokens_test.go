package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/flux2"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// drawing puts drawn numbers of a shape on a tape.
type drawing func(name string, shape ...int) *autograd.Value

// jointNetworks are networks of four heads in which pictures and texts attend to each other: pictures of 3 x 5 tokens,
// sources of 3 x 3 and texts of 7, so that shares of two and of four ranks differ.
func jointNetworks() map[string]func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
	norm, times := "rms_norm", []float32{0.9, 0.3}
	qwen := func(clean bool) func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
		return func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
			m := qwenimage.New(p, qwenimage.Config{PatchSize: 2, In: 16, Out: 4, Layers: 2, Heads: 4, HeadDim: 8, Context: 12, Axes: []int{2, 2, 4}, Clean: clean})
			return func(tp *autograd.Tape, draw drawing) *autograd.Value {
				return m.Forward(tp, qwenimage.Inputs{Latents: draw("latents", 15, 16), Sources: draw("sources", 9, 16), Text: draw("text", 7, 12), Words: []int32{7, 5},
					Time: times, Pictures: []qwenimage.Picture{{Rows: 3, Cols: 5}, {Rows: 3, Cols: 3}}})
			}
		}
	}
	return map[string]func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value{
		"SD3.5": func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
			m := mmdit.New(p, mmdit.Config{SampleSize: 8, PatchSize: 2, In: 4, Out: 4, Layers: 3, Heads: 4, HeadDim: 8, Context: 12, ContextWidth: 32, Pooled: 6,
				PositionsSide: 8, Dual: []int{0}, QKNorm: &norm})
			return func(tp *autograd.Tape, draw drawing) *autograd.Value {
				return m.Forward(tp, draw("latents", 6, 10, 4), draw("text", 7, 12), draw("pooled", 6), []float32{900, 300})
			}
		},
		"FLUX": func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
			m := flux.New(p, flux.Config{PatchSize: 1, In: 16, Out: 16, Layers: 2, Single: 2, Heads: 4, HeadDim: 8, Context: 12, Pooled: 6, Guidance: true, Axes: []int{2, 2, 4}})
			return func(tp *autograd.Tape, draw drawing) *autograd.Value {
				return m.Forward(tp, flux.Inputs{Latents: draw("latents", 15, 16), Sources: draw("sources", 9, 16), Text: draw("text", 7, 12), Pooled: draw("pooled", 6),
					Time: times, Guidance: []float32{3, 3}, Places: append(flux.Grid(0, 3, 5), flux.Grid(1, 3, 3)...), TextPlaces: flux.Nowhere(7)})
			}
		},
		"FLUX.2": func(p *nn.Params) func(tp *autograd.Tape, draw drawing) *autograd.Value {
			m := flux2.New(p, flux2.Config{PatchSize: 1, In: 16, Out: 16, Layers: 2, Single: 2, Heads: 4, HeadDim: 8, Context: 12, Waves: 16, Ratio: 2, Axes: []int{2, 2, 2, 2}, Theta: 2000, Eps: 1e-6})
			return func(tp *autograd.Tape, draw drawing) *autograd.Value {
				return m.Forward(tp, flux2.Inputs{Latents: draw("latents", 15, 16), Sources: draw("sources", 9, 16), Text: draw("text", 7, 12),
					Time: times, Places: append(flux2.Grid(0, 3, 5), flux2.Grid(1, 3, 3)...), TextPlaces: flux2.Words(7)})
			}
		},
		"Qwen-Image-Edit": qwen(false), "Qwen-Image-Edit-2511": qwen(true),
	}
}

// TestTokens: ranks that share the tokens of pictures, sources and texts have the outputs of one, to the last bit, and
// its gradients but for rounding, with blocks that run again and without.
func TestTokens(t *testing.T) {
	for name, build := range jointNetworks() {
		for _, o := range []autograd.Options{{Train: true}, {DType: kernels.BF16, Math: kernels.MathBF16, Train: true}} {
			t.Run(fmt.Sprint(name, " ", o.DType), func(t *testing.T) {
				run := func(o autograd.Options) (out []float32, grads [][]float32) {
					pool := tensor.NewPool(ref.Backend{})
					p, err := nn.New(nn.Options{Pool: pool, Math: o.Math, Key: rng.New(1), Train: []string{".*"}})
					if err != nil {
						panic(err)
					}
					forward := build(p)
					if err := p.Check(); err != nil {
						panic(err)
					}
					tp := autograd.New(pool, o)
					defer tp.Reset()
					y := forward(tp, func(name string, shape ...int) *autograd.Value {
						n := 2
						for _, d := range shape {
							n *= d
						}
						x := make([]float32, n)
						rng.New(2).With(rng.Purpose(name)).Normal(x, 0)
						return tp.Upload(name, x, append([]int{2}, shape...)...)
					})
					out = y.F32()
					seed := make([]float32, len(out))
					rng.New(3).Normal(seed, 0)
					tp.Backward(autograd.Seed{Of: y, Grad: seed})
					for _, p := range p.Trained() {
						g := make([]float32, p.Len())
						if p.Reached() {
							g = p.Grad().F32()
						}
						grads = append(grads, g)
					}
					return out, grads
				}
				want, grads := run(o)
				for _, n := range []int{2, 4} {
					var first [][]float32
					for _, blocks := range []int{0, autograd.AllBlocks} {
						outs, sums := runRanks(t, n, func(tokens *autograd.Tokens) ([]float32, [][]float32) {
							o := o
							o.Tokens, o.Checkpoint = tokens, blocks
							return run(o)
						})
						for r, out := range outs {
							if !slices.Equal(out, want) {
								t.Fatalf("rank %d of %d has other outputs", r, n)
							}
						}
						for k := range sums {
							if first != nil && !slices.Equal(sums[k], first[k]) {
								t.Errorf("%d ranks, gradient %d: blocks that run again give another", n, k)
							}
							if d := away(sums[k], grads[k]); d > map[kernels.DType]float64{kernels.F32: 2e-6, kernels.BF16: 3e-2}[o.DType] {
								t.Errorf("%d ranks, gradient %d is off by %g of its length", n, k, d)
							}
						}
						first = sums
					}
				}
			})
		}
	}
}

// runRanks runs ranks that share tokens: their outputs, and their gradients by the tree.
func runRanks(t *testing.T, n int, run func(tokens *autograd.Tokens) (out []float32, grads [][]float32)) (outs, sums [][]float32) {
	t.Helper()
	m := &exchange.Meeting{Ranks: slices.Repeat([]kernels.Backend{ref.Backend{}}, n)}
	m.Wire = &exchange.Host{Ranks: m.Ranks}
	outs = make([][]float32, n)
	grads := make([][][]float32, n)
	err := exchange.Team{Stop: func() { m.Abort(errors.New("another rank has failed")) }}.Each(n, func(r int) error {
		outs[r], grads[r] = run(&autograd.Tokens{Rank: r, Ranks: n, Meeting: m})
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
		sums = append(sums, tree(0, n, k))
	}
	return outs, sums
}

// away is the distance of x from y, in y's length.
func away(x, y []float32) float64 {
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

// TestTokensShares: each stream that ranks share has a token for every rank; a text that is read by another attention
// is not shared.
func TestTokensShares(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	tp := autograd.New(pool, autograd.Options{})
	defer tp.Reset()
	stream := func(n int) *autograd.Value { return tp.Upload("stream", make([]float32, n), 1, n, 1) }
	for what, c := range map[string]struct {
		ranks, picture, text, sources int
		apart, refused                bool
	}{
		"enough of each":             {ranks: 4, picture: 4, text: 4, sources: 4},
		"a short text":               {ranks: 4, picture: 4, text: 3, refused: true},
		"a short text that is apart": {ranks: 4, picture: 4, text: 3, apart: true},
		"a small picture":            {ranks: 4, picture: 3, text: 8, apart: true, refused: true},
		"a small source":             {ranks: 4, picture: 9, text: 8, sources: 2, refused: true},
		"one rank":                   {ranks: 1, picture: 1, text: 0},
	} {
		d := denoiser{loader: &loader{}}
		in := inputs{at: Shape{Tokens: c.picture}, text: stream(c.text)}
		if c.sources > 0 {
			in.sources = stream(c.sources)
		}
		d.Tokens, d.textApart = &autograd.Tokens{Ranks: c.ranks}, c.apart
		if err := d.checkShares(in); (err != nil) != c.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
}
