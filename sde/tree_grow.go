package sde

import (
	"fmt"
	"math"
	"slices"
)

// A TreeKind is a way in which samples branch. Its value stands above the formula (Growth); TreeKinds lists all.
type TreeKind struct {
	Name  string
	Card  string // a sentence: what it is, and whose
	Trunk bool   // all branches leave one path without noise, and those of a step are compared; otherwise nodes of a depth are

	Check  func(o TreeOptions, report func(key, problem, hint string))                             // what its options cannot be
	Group  func(o TreeOptions, group int) (problem, hint string)                                   // why a prompt cannot have a group of samples; "": it can
	Starts func(o TreeOptions, group int) int                                                      // trees of a prompt
	Judged func(o TreeOptions, g Growth, trained []int, group, steps, update, updates int) float64 // questions that the training of a prompt's trees takes: one serves all children of a node
	Words  func(o TreeOptions, group int) string                                                   // how a prompt's samples branch
}

// TreeKinds are all kinds of trees.
func TreeKinds() []TreeKind { return []TreeKind{BranchTree, TrunkTree} }

// TreeOptions are the options of all trees, as one table of a file has them.
type TreeOptions struct {
	Kind     string  `toml:"kind" enum:"branch,trunk" doc:"branch: what branched goes on and branches again (BranchGRPO); trunk: branches leave one path without noise, draw once, and end without noise (TempFlow)"`
	Splits   []int   `toml:"splits" range:"[0,1000]" doc:"steps at which there are several children; empty, with a trunk: every step of the window"`
	Children int     `toml:"children" range:"[2,1000]" doc:"at a split"`
	Scale    float64 `toml:"scale" range:"(0,inf)" doc:"of the noise at a split; the density keeps the unscaled deviation"`
	Fuse     string  `toml:"fuse" enum:"mean,probability" doc:"how a node's reward comes of those below it"`
	Prune    Pruning `toml:"prune"`
}

// SetDefaults is a tree without pruning.
func (o *TreeOptions) SetDefaults() {
	*o = TreeOptions{Kind: "branch", Children: 2, Scale: 1, Fuse: "mean", Prune: Pruning{SlideEvery: 1, StopDepth: -1, Width: "none", Ratio: 1, Until: 1}}
}

// Of is the kind's value.
func (o TreeOptions) Of() TreeKind {
	for _, k := range TreeKinds() {
		if k.Name == o.Kind {
			return k
		}
	}
	return BranchTree
}

// Growth is the tree's shape, without its rows. A trunk without splits has branches at every step of the window.
func (o TreeOptions) Growth(window []int) Growth {
	g := Growth{Splits: o.Splits, Children: o.Children, Scale: o.Scale, Trunk: o.Of().Trunk}
	if g.Trunk && len(g.Splits) == 0 {
		g.Splits = window
	}
	return g
}

// Between are the steps at which a tree that branches draws where it does not split: those of the window, or of its own
// windows where it is mixed.
func (o TreeOptions) Between(window []int, steps int) []int {
	if !o.Prune.Mixed {
		return window
	}
	return slices.DeleteFunc(span(0, steps), func(step int) bool { return !InMixedWindow(step, steps, o.Prune.MixedWindow, o.Prune.SlideEvery) })
}

// Check reports what does not fit together in a tree of steps.
func (o TreeOptions) Check(steps int, report func(key, problem, hint string)) {
	o.Of().Check(o, report)
	for _, p := range o.Splits {
		if p >= steps {
			report("splits", fmt.Sprintf("step %d is not one of %d, which begin at 0", p, steps), "")
			return
		}
	}
	if !slices.IsSorted(o.Splits) || len(slices.Compact(slices.Clone(o.Splits))) < len(o.Splits) {
		report("splits", "the steps are not in ascending order, each once", "")
	}
	if n := o.Growth(nil).Leaves(); n > 4096 {
		report("splits", fmt.Sprintf("one sample would become %d", n), "fewer splits or children")
	}
	if o.Prune.Width != "none" && o.Prune.Ratio == 0 {
		report("prune.ratio", "nothing would be kept", "0.5 keeps half of the late edges")
	}
	if o.Prune.Mixed && o.Prune.MixedWindow == 0 {
		report("prune.mixed_window|prune.mixed", "no step but the splits would draw", "BranchGRPO's mixed window is 4")
	}
}

// BranchTree is BranchGRPO's.
var BranchTree = TreeKind{
	Name: "branch", Card: "What branched goes on and branches again (BranchGRPO).",
	Check: func(o TreeOptions, report func(key, problem, hint string)) {
		if len(o.Splits) == 0 {
			report("splits", "a tree needs steps to branch at", "BranchGRPO uses [0, 3, 6, 9]")
		}
	},
	Group: func(o TreeOptions, group int) (problem, hint string) {
		if n := (Growth{Splits: o.Splits, Children: o.Children}).Leaves(); len(o.Splits) > 0 && group != n {
			return fmt.Sprintf("a tree with %d splits has %d leaves, not %d", len(o.Splits), n, group), "a group is the leaves of one tree"
		}
		return "", ""
	},
	Starts: func(TreeOptions, int) int { return 1 },
	Judged: func(o TreeOptions, g Growth, trained []int, _, steps, update, updates int) float64 {
		passes, last := g.Passes(steps), slices.Max(append([]int{0}, o.Splits...))
		depths, narrow := o.Prune.At(o.Splits, update, updates)
		early, late, after := 0.0, 0.0, 0
		for _, step := range trained {
			switch {
			case slices.Contains(depths, step+1):
			case step <= last:
				early += passes[step]
			default:
				late, after = late+passes[step], after+1
			}
		}
		switch {
		case !narrow || late == 0:
		case o.Prune.Width == "ends":
			late = math.Min(late, math.Max(2, math.Trunc(late*o.Prune.Ratio)))
		default: // below each branch
			late = passes[last+1] * math.Max(1, math.Trunc(float64(after)*o.Prune.Ratio))
		}
		return early + late
	},
	Words: func(o TreeOptions, _ int) string {
		return fmt.Sprintf(": the leaves of a tree with %d children at steps %v", o.Children, o.Splits)
	},
}

// TrunkTree is TempFlow-GRPO's: a prompt has as many trunks as make up the group that is compared at a step.
var TrunkTree = TreeKind{
	Name: "trunk", Card: "Branches leave one path without noise, draw once, and end without noise (TempFlow-GRPO).",
	Trunk: true,
	Check: func(o TreeOptions, report func(key, problem, hint string)) {
		if p := o.Prune; len(p.Depths) > 0 || p.Width != "none" || p.Mixed {
			report("prune", "every branch of a trunk has one choice: there is nothing to prune", "leave it out, or write fewer splits")
		}
	},
	Group: func(o TreeOptions, group int) (problem, hint string) {
		if group%o.Children != 0 {
			return fmt.Sprintf("%d samples of a step are no whole number of trunks with %d branches each", group, o.Children), fmt.Sprintf("a multiple of %d", o.Children)
		}
		return "", ""
	},
	Starts: trunks,
	Judged: func(o TreeOptions, _ Growth, trained []int, group, _, _, _ int) float64 {
		return float64(trunks(o, group) * len(trained))
	},
	Words: func(o TreeOptions, group int) string {
		n, s := trunks(o, group), "s"
		if n == 1 {
			s = ""
		}
		return fmt.Sprintf(" at a step: %d trunk%s with %d branches", n, s, o.Children)
	},
}

func trunks(o TreeOptions, group int) int { return max(group/o.Children, 1) }

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
