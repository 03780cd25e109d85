package sde

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// windows are combinations of a window's options.
func windows() []WindowOptions {
	var all []WindowOptions
	for _, kind := range []string{"full", "fraction", "range", "subset", "random", "sliding", "frozen"} {
		for _, tail := range []string{"shift", "skip", "short", "mixgrpo"} {
			for _, start := range []string{"noisy", "clean"} {
				for _, lasting := range []string{"constant", "decay", "exp_decay"} {
					for _, back := range []bool{false, true} {
						all = append(all, WindowOptions{Kind: kind, Size: 3, Every: 2, Stride: 2, Start: start, From: 1, Drop: 1, RollBack: back, Tail: tail, Fraction: 0.6,
							Low: 0.2, High: 0.8, Lasting: lasting, MinEvery: 1, MaxEvery: 3, DecayFrom: 2, DecayRate: 0.3})
					}
				}
			}
		}
	}
	return all
}

// A window never leaves the steps, is ascending, and its iterations can be asked for in any
// order.
func TestWindowsStayInside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, o := range windows() {
		for steps := 5; steps < 13; steps++ {
			for i := 40; i >= 0; i-- {
				last := -1
				for _, s := range o.Steps(steps, i, r.IntN) {
					if s <= last || s >= steps {
						t.Fatalf("%+v: step %d of %d after %d", o, s, steps, last)
					}
					last = s
				}
			}
		}
	}
}

// Sliding windows that roll back and shift or cut the rest reach every step they may.
func TestSlidingCoversEverything(t *testing.T) {
	for _, o := range windows() {
		if o.Kind != "sliding" || !o.RollBack || o.Tail == "skip" {
			continue
		}
		counts := o.Coverage(10, 200, nil)
		for s, n := range counts {
			if inside := s >= o.From && s < 10-o.Drop; inside != (n > 0) {
				t.Errorf("%+v: step %d was trained %d times", o, s, n)
			}
		}
	}
}

func TestWindowChecks(t *testing.T) {
	for key, o := range map[string]WindowOptions{"size": {Kind: "sliding"}, "overlap": {Kind: "sliding", Size: 2, Overlap: 2}, "low": {Kind: "range", Low: 1}, "max_every": {Kind: "sliding", Size: 1, Lasting: "decay"}, "": DefaultWindow()} {
		said := ""
		o.Check(func(k, problem, hint string) { said = k })
		if said != key {
			t.Errorf("%+v: %q, want %q", o, said, key)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, o := range []FlowOptions{DefaultFlow(), {Shift: 3, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 1, Karras: true, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 1, Exponential: true, SigmaMax: 1, SigmaMin: 0.01},
		{Shift: 1, Beta: true, SigmaMax: 1, SigmaMin: 0.01}, {Dynamic: true, SigmaMax: 1, SigmaMin: 0.01}, {Shift: 2, Terminal: 0.05, SigmaMax: 1, SigmaMin: 0.01}} {
		s, err := Flow(o, 12, nil, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(s.Sigmas); i++ {
			if s.Sigmas[i] >= s.Sigmas[i-1] {
				t.Errorf("%+v: %v does not fall", o, s.Sigmas)
				break
			}
		}
	}
	if _, err := Flow(DefaultFlow(), 0, nil, 0); err == nil {
		t.Error("no steps")
	}
	for x := 0.0; x <= 1; x += 0.125 {
		if Shift(1, x) != x {
			t.Error("a shift of 1 moves", x)
		}
		if p := betaCDF(betaQuantile(x, 0.6, 0.6), 0.6, 0.6); math.Abs(p-x) > 1e-9 {
			t.Errorf("beta: the quantile of %v has %v below it", x, p)
		}
	}
	for _, o := range []VPOptions{{TrainSteps: 0}, {TrainSteps: 10, Betas: "odd"}, {TrainSteps: 10, Betas: "linear", Spacing: "odd"}, {TrainSteps: 10, Betas: "linear", Spacing: "leading", Offset: 9},
		{TrainSteps: 10, Betas: "linear", Spacing: "leading", Offset: -1}} {
		if _, _, err := DDIMSteps(o, 5); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

// Fusing a uniform tree keeps the mean; a depth's advantages add up to 0.
func TestTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tree := NewTree()
	for range 3 {
		var next []int
		for _, n := range tree.Leaves {
			next = append(next, tree.Grow(n, true, r.NormFloat64()), tree.Grow(n, true, r.NormFloat64()))
		}
		tree.Leaves = next
	}
	rewards, mean := make([]float64, 8), 0.0
	for i := range rewards {
		rewards[i] = r.NormFloat64()
		mean += rewards[i] / 8
	}
	all := tree.Fuse(rewards, false)
	if math.Abs(all[0]-mean) > 1e-12 {
		t.Errorf("the root has %v, the mean is %v", all[0], mean)
	}
	sums := map[int]float64{}
	for n, a := range tree.DepthAdvantages(all) {
		sums[tree.Depth[n]] += a
	}
	for d, s := range sums {
		if math.Abs(s) > 1e-9 {
			t.Errorf("depth %d adds up to %v", d, s)
		}
	}
	weighted := tree.Fuse(rewards, true)
	for n := range weighted {
		low, high := math.Inf(1), math.Inf(-1)
		for _, x := range rewards {
			low, high = math.Min(low, x), math.Max(high, x)
		}
		if weighted[n] < low || weighted[n] > high {
			t.Errorf("node %d: %v is not between its leaves", n, weighted[n])
		}
	}
}

// TestWindowKeys: what a window reads is an option of the table, and what no window names is read by all.
func TestWindowKeys(t *testing.T) {
	table := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[WindowOptions]()) {
		table[f.Tag.Get("toml")] = true
	}
	for _, w := range Windows() {
		for _, k := range w.Keys {
			if !table[k] {
				t.Errorf("%s reads %s, which the table does not have", w.Name, k)
			}
		}
		if slices.Contains(w.Keys, "own") != (w.Own != nil || w.Scattered) {
			t.Errorf("%s reads own, and nothing says which windows a prompt may have", w.Name)
		}
	}
}
