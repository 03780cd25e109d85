package advantage

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/sde"
)

// tree grows one of four steps.
func tree(r *rand.Rand, trunk bool, splits ...int) *sde.Tree {
	s := sde.Static(1, 4)
	g := sde.Growth{Splits: splits, Children: 2, Scale: 1, Trunk: trunk,
		Stochastic: func(step int) sde.Row { return sde.Dance(s, step, 0.3, sde.Gaussian) }, Deterministic: func(step int) sde.Row { return sde.Euler(s, step) }}
	t, _, _ := g.Run(4, []float64{1}, func(x []float64, _ int) []float64 { return x }, func() []float64 { return []float64{r.NormFloat64()} })
	return t
}

func TestLayers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	x := tree(r, false, 0, 2)
	a, err := Layers(x, []float64{3, 1, 0, 0}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Two branches with the means 2 and 0: deviation √2. Leaves: mean 1, deviation √2.
	for n, want := range map[int]float64{0: 0, 1: math.Sqrt(0.5), 2: -math.Sqrt(0.5), 5: math.Sqrt2, 6: 0, 7: -math.Sqrt(0.5), 8: -math.Sqrt(0.5)} {
		if math.Abs(a[n]-want) > 1e-7 {
			t.Errorf("node %d: %v, want %v", n, a[n], want)
		}
	}
	cut, _ := Layers(x, []float64{3, 1, 0, 0}, false, 0.5)
	if cut[5] != 0.5 || cut[7] != -0.5 {
		t.Errorf("cut to a half: %v", cut)
	}
	missing, _ := Layers(x, []float64{math.NaN(), 1, 0, 0}, false, 0)
	if !math.IsNaN(missing[5]) || math.IsNaN(missing[1]) || missing[1] <= 0 {
		t.Errorf("a missing leaf: %v", missing)
	}
	if _, err := Layers(x, []float64{1}, false, 0); err == nil {
		t.Error("one reward for four leaves")
	}
}

func TestBranches(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	trees := []*sde.Tree{tree(r, true, 0, 2), tree(r, true, 0, 2)}
	o := Options{Over: "group", Baseline: "mean", Scale: "group", Eps: 1e-4, EpsMode: "add", Singleton: "zero", Flat: "zero"}
	due := func(rewards [][]float64) map[int][]float64 { // by step, in the order of trees and leaves
		a, err := Branches(o, []int{7, 7}, trees, rewards)
		if err != nil {
			t.Fatal(err)
		}
		by := map[int][]float64{}
		for i, x := range trees {
			for _, leaf := range x.Leaves {
				n := x.Drawn(leaf)
				by[x.Step[x.Parent[n]]] = append(by[x.Step[x.Parent[n]]], a[i][n])
			}
			if a[i][0] != 0 {
				t.Errorf("the root has %v", a[i][0])
			}
		}
		return by
	}
	by := due([][]float64{{1, 3, 10, 14}, {2, 6, 20, 12}})
	if len(by) != 2 || len(by[0]) != 4 || len(by[2]) != 4 {
		t.Fatal(by)
	}
	for step, a := range by {
		sum := 0.0
		for _, v := range a {
			sum += v
		}
		if math.Abs(sum) > 1e-9 {
			t.Errorf("step %d adds up to %v", step, sum)
		}
	}
	// Each step has its own group of both trees' leaves.
	want, _ := o.Of(make([]int, 4), []float64{1, 3, 2, 6})
	other, _ := o.Of(make([]int, 4), []float64{10, 14, 20, 12})
	for _, pair := range [][2][]float64{{by[0], by[2]}} {
		ok := func(got, want []float64) bool {
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-12 {
					return false
				}
			}
			return true
		}
		if !(ok(pair[0], want) && ok(pair[1], other)) && !(ok(pair[1], want) && ok(pair[0], other)) {
			t.Errorf("%v, want %v and %v", by, want, other)
		}
	}
	// Trees of two prompts are compared apart, and over one deviation of the batch where it is
	// asked for.
	for _, scale := range []string{"group", "batch"} {
		o := o
		o.Scale = scale
		got, err := Branches(o, []int{7, 3}, trees, [][]float64{{1, 3, 10, 14}, {2, 6, 20, 12}})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := o.Of([]int{0, 0, 1, 1, 2, 2, 3, 3}, []float64{1, 3, 10, 14, 2, 6, 20, 12})
		for i, x := range trees {
			for k, leaf := range x.Leaves {
				if a := got[i][x.Drawn(leaf)]; a != want[4*i+k] {
					t.Errorf("%s: leaf %d of prompt %d has %v, not %v", scale, k, i, a, want[4*i+k])
				}
			}
		}
	}
	gone := due([][]float64{{1, 3, math.NaN(), 14}, {2, 6, 20, 12}})
	n := 0
	for _, a := range gone {
		for _, v := range a {
			if math.IsNaN(v) {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("one reward is missing, %d advantages are: %v", n, gone)
	}
	for name, c := range map[string]struct {
		trees   []*sde.Tree
		rewards [][]float64
	}{"trees": {trees, [][]float64{{1, 2, 3, 4}}}, "leaves": {trees[:1], [][]float64{{1}}}, "choices": {[]*sde.Tree{sde.NewTree()}, [][]float64{{1}}}} {
		if _, err := Branches(o, make([]int, len(c.trees)), c.trees, c.rewards); err == nil {
			t.Errorf("too few %s", name)
		}
	}
}

// TestInTrees: both terms by hand, a tree of equal samples, one that is missing,
// one tree a prompt, and a bound of the sum.
func TestInTrees(t *testing.T) {
	e := Estimator{Options: Options{Over: "group", Baseline: "mean", Scale: "none"}}
	nan := math.NaN()
	b := Batch{Groups: []int{0, 0, 0, 0, 1, 1}, Rewards: [][]float64{{1, 0, 1, 1, 3, nan}}}
	a, _, err := e.InTrees(b, []int{0, 0, 1, 1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.25 + 0.5, -0.75 - 0.5, 0.25, 0.25, 0, nan} {
		if a[i] != want && (a[i] == a[i] || want == want) {
			t.Errorf("sample %d: %v, want %v", i, a[i], want)
		}
	}
	plain, _, err := e.Advantages(b)
	if err != nil {
		t.Fatal(err)
	}
	if a, _, err = e.InTrees(b, b.Groups); err != nil || a[1] != 2*plain[1] {
		t.Errorf("one tree: %v, want twice %v (%v)", a, plain, err)
	}
	e.Clip = 1
	if a, _, err = e.InTrees(b, []int{0, 0, 1, 1, 2, 2}); err != nil || a[0] != 0.75 || a[1] != -1 {
		t.Errorf("cut to 1: %v (%v)", a, err)
	}
	if _, _, err := e.InTrees(b, []int{0}); err == nil {
		t.Error("one number for six samples")
	}
}
