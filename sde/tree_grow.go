package sde

import "slices"

// Growth is how a tree is made: at a split point every node has several children, whose
// noise is scaled while the density keeps the unscaled deviation (BranchGRPO); elsewhere one,
// stochastic where Draws says so (nil: always).
type Growth struct {
	Splits                    []int
	Children                  int
	Scale                     float64
	Draws                     func(step int) bool
	Stochastic, Deterministic func(step int) Row
}

// Run grows a tree of steps. It returns every node's latents, and the clean samples that
// the last step predicted for each leaf. noise is asked for node by node, child by child.
func (g Growth) Run(steps int, start []float64, net Network, noise func() []float64) (t *Tree, states, clean [][]float64) {
	t, states = NewTree(), [][]float64{start}
	for step := range steps {
		split := slices.Contains(g.Splits, step)
		children, draws := 1, split || g.Draws == nil || g.Draws(step)
		if split {
			children = g.Children
		}
		var next []int
		clean = nil
		for _, node := range t.Leaves {
			var h History
			h.Push(states[node], net(states[node], step))
			r := g.Deterministic(step)
			if draws {
				r = g.Stochastic(step)
			}
			mean := r.Mean(&h)
			for range children {
				state, lp := mean, 0.0
				if draws {
					z := slices.Clone(noise())
					if split {
						for i := range z {
							z[i] *= g.Scale
						}
					}
					state = r.Draw(mean, z)
					lp = r.LogProb(mean, state)
				}
				next = append(next, t.Grow(node, draws, lp))
				states, clean = append(states, state), append(clean, r.Clean.Apply(&h))
			}
		}
		t.Leaves = next
	}
	return t, states, clean
}
