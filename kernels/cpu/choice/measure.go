package choice

import (
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Backend is one of a number of threads (0: the default) on the path that DARKROOM_CPU names, or on the fastest path of
// each family of operations by times: Measure, or kept ones.
func Backend(threads int, times func() Table) (*cpu.Backend, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	o := cpu.Options{Path: path, Threads: threads}
	if !isa.Forced() {
		o.Mix = times().Mix(path)
	}
	return cpu.NewWith(o), nil
}

// Measure times the families on the paths that this CPU has, which takes some tens of milliseconds of one thread. Paths
// are timed in turn, in the thread's own time where the system tells it, and the best of several rounds counts: other
// work on the machine disturbs all of them alike.
func Measure() Table {
	if len(candidates(kernels.MathBF16)) < 2 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var t Table
	backends := map[isa.Path]*cpu.Backend{}
	for f, workloads := range [...][]workload{{forward, decode, weightGradient}, {attend}, {convolve}} {
		for m := range maths {
			paths := candidates(kernels.Math(m))
			var runs [][]func()
			for _, p := range paths {
				if backends[p] == nil {
					backends[p] = cpu.NewWith(cpu.Options{Path: p, Threads: 1})
				}
				var all []func()
				for _, w := range workloads {
					all = append(all, w(backends[p], kernels.Math(m)))
				}
				runs = append(runs, all)
			}
			row := Row{Family: families[f], Math: maths[m], MS: map[string]float64{}}
			for i, took := range race(runs, peak.ThreadTime) {
				row.MS[paths[i].String()] = math.Round(took.Seconds()*1e6) / 1e3
			}
			t = append(t, row)
		}
	}
	return t
}

// candidates are the paths that may be the fastest one: all but Plain; in fp32, one of those whose block kernels are
// the same.
func candidates(m kernels.Math) []isa.Path {
	return slices.DeleteFunc(slices.Clone(isa.Paths()), func(p isa.Path) bool {
		return p == isa.Plain || m == kernels.MathF32 && p >= isa.AVX512 && p < isa.Best()
	})
}

// Rounds of a race, and how much slower than the fastest a path may be to stay in it.
const (
	rounds = 3
	behind = 1.5
)

// race is the sum of the best times of each contestant's runs. The first round warms up; a contestant that is far
// behind after the second one takes no further part.
func race(contestants [][]func(), clock func() time.Duration) []time.Duration {
	best, sums, out := make([][]time.Duration, len(contestants)), make([]time.Duration, len(contestants)), make([]bool, len(contestants))
	for round := range rounds + 1 {
		for i, runs := range contestants {
			if best[i] == nil {
				best[i] = slices.Repeat([]time.Duration{math.MaxInt64}, len(runs))
			}
			for j, run := range runs {
				if out[i] {
					continue
				}
				begin := clock()
				run()
				if took := clock() - begin; round > 0 {
					best[i][j] = min(best[i][j], took)
				}
			}
		}
		if round == 0 {
			continue
		}
		for i := range contestants {
			sums[i] = 0
			for _, b := range best[i] {
				sums[i] += b
			}
		}
		for i, least := 0, slices.Min(sums); i < len(out); i++ {
			out[i] = float64(sums[i]) > behind*float64(least)
		}
	}
	return sums
}

// A workload makes operands and returns a call.
type workload func(b *cpu.Backend, m kernels.Math) func()

// operand is random: zeros draw less power, and the clock would be higher than in real work.
func operand(b *cpu.Backend, m kernels.Math, n int) kernels.Span {
	d := typeOf(m)
	s := kernels.Span{Buf: b.Alloc(n * d.Size()), Len: n, DType: d}
	x := make([]float32, min(n, 4096))
	rng.New(1).UniformOpen(x, 0)
	ref.Store(s, 0, x)
	raw := s.Raw()
	for done := len(x) * d.Size(); done < len(raw); { // the same numbers again
		done += copy(raw[done:], raw[:done])
	}
	return s
}

func typeOf(m kernels.Math) kernels.DType {
	if m == kernels.MathBF16 {
		return kernels.BF16
	}
	return kernels.F32
}

func matrix(b *cpu.Backend, m kernels.Math, rows, cols int) kernels.Mat {
	return kernels.NewMat(operand(b, m, rows*cols), rows, cols)
}

// forward is a layer with a frozen weight.
func forward(b *cpu.Backend, m kernels.Math) func() { return layer(b, m, 192, 512, 512) }

// decode is a layer that a few tokens pass, whose time is that of reading the weight.
func decode(b *cpu.Backend, m kernels.Math) func() { return layer(b, m, 8, 1024, 512) }

func layer(b *cpu.Backend, m kernels.Math, rows, n, k int) func() {
	g := &kernels.Gemm{Layout: kernels.NT, Math: m, A: matrix(b, m, rows, k), W: b.Pack(matrix(b, m, n, k), m), C: matrix(b, m, rows, n)}
	return func() { b.Gemm(g) }
}

// weightGradient is the product of a gradient and an activation.
func weightGradient(b *cpu.Backend, m kernels.Math) func() {
	g := &kernels.Gemm{Layout: kernels.TN, Math: m, A: matrix(b, m, 192, 384), B: matrix(b, m, 192, 384), C: matrix(b, kernels.MathF32, 384, 384)}
	return func() { b.Gemm(g) }
}

// attend is a head forward and backward.
func attend(b *cpu.Backend, m kernels.Math) func() {
	const tokens, width = 192, 64
	heads := func() kernels.Heads { return kernels.NewHeads(operand(b, m, tokens*width), 1, tokens, 1, width) }
	a := kernels.Attention{Math: m, Q: heads(), K: heads(), V: heads(), O: heads(), LSE: operand(b, kernels.MathF32, tokens), Scale: 0.125}
	g := &kernels.AttentionBackward{Attention: a, DO: heads(), DQ: heads(), DK: heads(), DV: heads(), Delta: operand(b, kernels.MathF32, tokens)}
	return func() { b.Attention(&a); b.AttentionBackward(g) }
}

// convolve is a window of 3 x 3 with as many channels out as in.
func convolve(b *cpu.Backend, m kernels.Math) func() {
	const channels, side = 64, 24
	s := kernels.ConvShape{In: channels, Out: channels, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	a := &kernels.Conv{Shape: s, Math: m, X: operand(b, m, side*side*channels), Y: operand(b, m, side*side*channels), N: 1, H: side, W: side,
		Packed: b.PackConv(operand(b, m, channels*9*channels), s, m)}
	return func() { b.Conv(a) }
}
