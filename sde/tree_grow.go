package sde

import "slices"

// Growth describes the growth of a tree. At a split point
//
//	branching  every node has several children, whose noise is scaled while the density keeps
//	           the unscaled deviation (BranchGRPO); elsewhere one, stochastic where Draws says
//	           so (nil: always)
//	Trunk      only the one path without noise has several children, and goes on; they draw
//	           once and are then finished without noise, so that a final sample is due to one
//	           choice (TempFlow-GRPO; He et al., 2025). The trunk's own end is not a leaf, and
//	           beyond the last split it is not computed
//
// Invariants (tests): a branching tree has Children^splits leaves, one with a trunk
// Children·splits; Passes is the number of Run's network calls.
type Growth struct {
	Splits                    []int
	Children                  int
	Scale                     float64
	Trunk                     bool
	Draws                     func(step int) bool
	Stochastic, Deterministic func(step int) Row
}

// Leaves is the number of samples that one start becomes, at most 2³⁰.
func (g Growth) Leaves() int {
	n := 1
	for i := range g.Splits {
		if n = min(n*g.Children, 1<<30); g.Trunk {
			n = min((i+1)*g.Children, 1<<30)
		}
	}
	return n
}

// Passes is how often the network is asked while a tree of steps grows, for its nodes after
// each number of steps.
func (g Growth) Passes(steps int) []float64 {
	passes, wide, left := make([]float64, steps), 1.0, len(g.Splits)
	if g.Trunk && left == 0 {
		return passes
	}
	for step := range steps {
		passes[step] = wide
		switch split := slices.Contains(g.Splits, step); {
		case split && !g.Trunk:
			wide *= float64(g.Children)
		case split:
			if wide += float64(g.Children); left == 1 {
				wide--
			}
			left--
		}
	}
	return passes
}

// Run grows a tree of steps. It returns every node's latents, and the clean samples that
// the last step predicted for each leaf. noise is asked for node by node, child by child.
func (g Growth) Run(steps int, start []float64, net Network, noise func() []float64) (t *Tree, states, clean [][]float64) {
	t, states = NewTree(), [][]float64{start}
	trunk, left := 0, len(g.Splits)
	if !g.Trunk {
		trunk = -1
	} else if left == 0 {
		t.Leaves = nil
	}
	for step := range steps {
		split := slices.Contains(g.Splits, step)
		var next []int
		clean = nil
		for _, node := range t.Leaves {
			var h History
			h.Push(states[node], net(states[node], step))
			grow := func(children int, draws bool) {
				r := g.Deterministic(step)
				if draws {
					r = g.Stochastic(step)
				}
				mean := r.Mean(&h)
				for range children {
					state, lp := mean, 0.0
					if draws {
						state = r.Draw(mean, g.scaled(noise(), split))
						lp = r.LogProb(mean, state)
					}
					next = append(next, t.Grow(node, draws, lp))
					states, clean = append(states, state), append(clean, r.Clean.Apply(&h))
				}
			}
			switch {
			case !g.Trunk && split:
				grow(g.Children, true)
			case !g.Trunk:
				grow(1, g.Draws == nil || g.Draws(step))
			case node == trunk && split:
				if left--; left > 0 {
					grow(1, false)
					trunk = next[len(next)-1]
				}
				grow(g.Children, true)
			default:
				if grow(1, false); node == trunk {
					trunk = next[len(next)-1]
				}
			}
		}
		t.Leaves = next
	}
	return t, states, clean
}

// scaled is the noise of a split, or as it is.
func (g Growth) scaled(z []float64, split bool) []float64 {
	z = slices.Clone(z)
	if split {
		for i := range z {
			z[i] *= g.Scale
		}
	}
	return z
}
