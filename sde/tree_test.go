package sde

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestLayout: a tree's shape is that of the one that grows, and ways lead from the root to the
// leaves.
func TestLayout(t *testing.T) {
	schedule := Schedule{Sigmas: linspace(0.95, 0, 7)}
	for _, splits := range [][]int{nil, {0}, {2, 3}, {0, 2, 5}} {
		for _, trunk := range []bool{false, true} {
			g := Growth{Splits: splits, Children: 3, Scale: 2, Trunk: trunk, Draws: func(step int) bool { return step%2 == 1 },
				Stochastic: func(step int) Row { return FlowSDE(schedule, step, 0.7, 0) }, Deterministic: func(step int) Row { return Euler(schedule, step) }}
			grown, _, _ := g.Run(6, []float64{0.4}, func(x []float64, step int) []float64 { return x }, func() []float64 { return []float64{1} })
			clear(grown.LogProb)
			got, ways := g.Layout(6)
			if !reflect.DeepEqual(got, grown) {
				t.Errorf("splits at %v, trunk %v: %+v, and %+v grew", splits, trunk, got, grown)
			}
			for i, way := range ways {
				if way[5] != got.Leaves[i] || got.Parent[way[0]] != 0 {
					t.Errorf("leaf %d is reached by %v", got.Leaves[i], way)
				}
				for s := 1; s < len(way); s++ {
					if got.Parent[way[s]] != way[s-1] {
						t.Errorf("leaf %d: node %d is no child of %d", got.Leaves[i], way[s], way[s-1])
					}
				}
			}
		}
	}
}

// grown is a tree of steps with two children at the splits, and advantages for its nodes.
func grown(steps int, splits []int) (*Tree, []float64) {
	r := rand.New(rand.NewPCG(3, 4))
	schedule := Schedule{Sigmas: linspace(0.95, 0, steps+1)}
	row := func(step int) Row { return FlowSDE(schedule, step, 0.7, 0) }
	g := Growth{Splits: splits, Children: 2, Scale: 1, Stochastic: row, Deterministic: row}
	tree, _, _ := g.Run(steps, []float64{0, 0}, func(x []float64, _ int) []float64 { return x }, func() []float64 { return []float64{r.NormFloat64(), r.NormFloat64()} })
	advantages := make([]float64, len(tree.Parent))
	for i := range advantages {
		advantages[i] = r.NormFloat64()
	}
	return tree, advantages
}

// A tree has 2^splits leaves, every edge is one step, and parents come before children.
func TestGrowth(t *testing.T) {
	for _, splits := range [][]int{nil, {0}, {0, 2}, {1, 2, 3}} {
		tree, _ := grown(5, splits)
		if len(tree.Leaves) != 1<<len(splits) {
			t.Errorf("splits at %v: %d leaves", splits, len(tree.Leaves))
		}
		for n := 1; n < len(tree.Parent); n++ {
			p := tree.Parent[n]
			if p >= n || tree.Step[n] != tree.Step[p]+1 || tree.Depth[n] != tree.Depth[p]+1 {
				t.Errorf("splits at %v: node %d after %d", splits, n, p)
			}
		}
		for _, leaf := range tree.Leaves {
			if tree.Step[leaf] != 5 {
				t.Errorf("splits at %v: a leaf after %d steps", splits, tree.Step[leaf])
			}
		}
	}
}

// A trunk draws nothing, every leaf is due to one choice, and the network is asked as often
// as Passes says; so it is in a tree that branches.
func TestTrunks(t *testing.T) {
	schedule := Schedule{Sigmas: linspace(0.95, 0, 7)}
	for _, splits := range [][]int{nil, {0}, {2, 3}, {0, 2, 5}, {0, 1, 2, 3, 4, 5}} {
		for _, trunk := range []bool{false, true} {
			g := Growth{Splits: splits, Children: 3, Scale: 1, Trunk: trunk,
				Stochastic: func(step int) Row { return FlowSDE(schedule, step, 0.7, 0) }, Deterministic: func(step int) Row { return Euler(schedule, step) }}
			asked, drawn := make([]float64, 6), 0
			tree, states, _ := g.Run(6, []float64{0.4}, func(x []float64, step int) []float64 { asked[step]++; return x }, func() []float64 { drawn++; return []float64{float64(drawn)} })
			if want := g.Passes(6); !slices.Equal(asked, want) {
				t.Errorf("splits at %v: asked %v times, counted %v", splits, asked, want)
			}
			if want := g.Leaves(); len(tree.Leaves) != want && !(trunk && splits == nil) {
				t.Errorf("splits at %v: %d leaves, counted %d", splits, len(tree.Leaves), want)
			}
			if !trunk {
				continue
			}
			if drawn != 3*len(splits) || len(tree.Leaves) != drawn {
				t.Errorf("splits at %v: %d draws, %d leaves", splits, drawn, len(tree.Leaves))
			}
			for _, leaf := range tree.Leaves {
				n, path := tree.Drawn(leaf), 0
				for at := leaf; at > 0; at = tree.Parent[at] {
					if tree.SDE[at] {
						path++
					}
				}
				if n < 0 || path != 1 || !slices.Contains(splits, tree.Step[tree.Parent[n]]) || tree.Step[leaf] != 6 {
					t.Errorf("splits at %v: leaf %d is due to node %d, with %d draws on its way", splits, leaf, n, path)
				}
				// The trunk's state there is Euler's path alone.
				x := []float64{0.4}
				for step := range tree.Step[tree.Parent[n]] {
					var h History
					h.Push(x, x)
					x = Euler(schedule, step).Mean(&h)
				}
				if got := states[tree.Parent[n]][0]; got != x[0] {
					t.Errorf("splits at %v: the trunk is at %v, want %v", splits, got, x[0])
				}
			}
			if n := tree.Drawn(0); n != -1 {
				t.Errorf("the root is due to %d", n)
			}
		}
	}
}

// A leaf without a reward is as if it were not there.
func TestMissingLeaves(t *testing.T) {
	tree, _ := grown(3, []int{0, 1}) // leaves below nodes 3, 4 and 5, 6
	nan := math.NaN()
	for _, likely := range []bool{false, true} {
		one := tree.Fuse([]float64{1, nan, 5, 2}, likely)
		if one[3] != 1 || !math.IsNaN(one[4]) || one[1] != 1 {
			t.Errorf("likely %v: %v", likely, one)
		}
		a := tree.DepthAdvantages(one)
		if !math.IsNaN(a[4]) || math.IsNaN(a[3]) || math.Abs(a[3]+a[5]+a[6]) > 1e-9 {
			t.Errorf("likely %v: advantages %v", likely, a)
		}
		for _, p := range []Pruning{{}, {Width: "ends", Ratio: 1, Until: 1}, {Width: "branch", Ratio: 1, Until: 1}} {
			if kept := p.Kept(tree, a, []int{0, 1}, 3, 0, 1); slices.Contains(kept, 4) || !slices.Contains(kept, 3) {
				t.Errorf("%+v trains %v, and 4 has no advantage", p, kept)
			}
		}
		none := tree.Fuse([]float64{nan, nan, 5, 2}, likely)
		if !math.IsNaN(none[1]) || math.IsNaN(none[2]) || none[0] != none[2] {
			t.Errorf("likely %v: %v", likely, none)
		}
	}
}

func TestPruning(t *testing.T) {
	splits := []int{0, 1}
	tree, advantages := grown(6, splits)
	all := span(1, len(tree.Parent))
	kept := func(p Pruning, update int) []int { return p.Kept(tree, advantages, splits, 6, update, 10) }
	late := func(nodes []int) (n int) {
		for _, e := range nodes {
			if tree.Step[tree.Parent[e]] > 1 {
				n++
			}
		}
		return n
	}
	if got := kept(Pruning{SlideEvery: 1, Until: 1}, 0); !slices.Equal(got, all) {
		t.Errorf("no pruning keeps %v of %v", got, all)
	}
	for update, depths := range map[int][]int{0: {4, 5}, 2: {3, 4}, 4: {2, 3}, 9: {2, 3}} {
		p := Pruning{Depths: []int{5, 4}, Slide: true, SlideEvery: 2, StopDepth: 2, Until: 1}
		want := slices.DeleteFunc(slices.Clone(all), func(n int) bool { return slices.Contains(depths, tree.Depth[n]) })
		if got := kept(p, update); !slices.Equal(got, want) {
			t.Errorf("update %d without depths %v keeps %v, want %v", update, depths, got, want)
		}
		if !slices.Equal(p.Depths, []int{5, 4}) {
			t.Error("the options were changed")
		}
	}
	for width, want := range map[string]int{"branch": 4 * 2, "ends": late(all) / 2} {
		p := Pruning{SlideEvery: 1, Width: width, Ratio: 0.5, Until: 0.5}
		if got := kept(p, 5); late(got) != want || len(got)-late(got) != len(all)-late(all) {
			t.Errorf("width %s keeps %d late edges of %d, want %d", width, late(got), late(all), want)
		}
		if got := kept(p, 6); !slices.Equal(got, all) {
			t.Errorf("width %s goes on after the share until", width)
		}
	}
	for _, n := range kept(Pruning{SlideEvery: 3, Until: 1, Mixed: true, MixedWindow: 1}, 0) {
		if step := tree.Step[tree.Parent[n]]; step != 0 && step != 1 && step != 3 {
			t.Errorf("mixed keeps the edge from step %d", step)
		}
	}
}
