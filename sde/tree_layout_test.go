package sde

import (
	"reflect"
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
