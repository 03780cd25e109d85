package sde

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Trees (BranchGRPO; Li et al., 2025): samples share their beginning and branch at split
// points. Nodes are numbered as they are made, level by level; the edge from a parent to
// its child is one decision that may be trained.

// Tree is the nodes of one prompt.
type Tree struct {
	Parent  []int // -1 of the root
	Step    []int // denoising steps done
	Depth   []int
	SDE     []bool // the edge to the node drew
	LogProb []float64
	Leaves  []int
}

// NewTree has a root.
func NewTree() *Tree {
	return &Tree{Parent: []int{-1}, Step: []int{0}, Depth: []int{0}, SDE: []bool{false}, LogProb: []float64{0}, Leaves: []int{0}}
}

// Grow adds a child, and returns its number.
func (t *Tree) Grow(parent int, drew bool, logProb float64) int {
	t.Parent, t.Step, t.Depth = append(t.Parent, parent), append(t.Step, t.Step[parent]+1), append(t.Depth, t.Depth[parent]+1)
	t.SDE, t.LogProb = append(t.SDE, drew), append(t.LogProb, logProb)
	return len(t.Parent) - 1
}

// children lists each node's.
func (t *Tree) children() [][]int {
	all := make([][]int, len(t.Parent))
	for n, p := range t.Parent {
		if p >= 0 {
			all[p] = append(all[p], n)
		}
	}
	return all
}

// InMixedWindow says whether a step of a mixed tree draws: those of [step/stride·stride,
// +size) that exist. A stride below 1 counts as 1.
func InMixedWindow(step, steps, size, stride int) bool {
	stride = max(stride, 1)
	from := step / stride * stride
	return step >= from && step < steps && step-from < size
}

// Drawn is the last node on the way from the root to a node whose edge drew: the choice that
// a leaf of a tree with a trunk is due to. -1: none did.
func (t *Tree) Drawn(node int) int {
	for node > 0 && !t.SDE[node] {
		node = t.Parent[node]
	}
	if node == 0 {
		return -1
	}
	return node
}

// Fuse carries the leaves' rewards up: a node's is the mean of the leaves below it, or, by
// probability, the sum over its children of softmax(log-probability)·reward. A leaf whose
// reward is missing (NaN) is left out; a node that has no other is missing too.
func (t *Tree) Fuse(leafRewards []float64, byProbability bool) []float64 {
	rewards, sums, counts := make([]float64, len(t.Parent)), make([]float64, len(t.Parent)), make([]float64, len(t.Parent))
	for i := range rewards {
		rewards[i] = math.NaN()
	}
	for i, n := range t.Leaves {
		if r := leafRewards[i]; !math.IsNaN(r) {
			rewards[n], sums[n], counts[n] = r, r, 1
		}
	}
	children := t.children()
	for n := len(t.Parent) - 1; n >= 0; n-- {
		there := slices.DeleteFunc(children[n], func(c int) bool { return math.IsNaN(rewards[c]) })
		switch {
		case len(there) == 0:
		case byProbability:
			rewards[n] = t.likely(there, rewards)
		default:
			for _, c := range there {
				sums[n], counts[n] = sums[n]+sums[c], counts[n]+counts[c]
			}
			rewards[n] = sums[n] / counts[n]
		}
	}
	return rewards
}

// likely is the mean of some nodes' rewards, by the probability of their edges.
func (t *Tree) likely(nodes []int, rewards []float64) float64 {
	top := math.Inf(-1)
	for _, n := range nodes {
		top = math.Max(top, t.LogProb[n])
	}
	total, sum := 0.0, 0.0
	for _, n := range nodes {
		w := portable.Exp(t.LogProb[n] - top)
		total, sum = total+w, sum+float64(w*rewards[n])
	}
	return sum / total
}

// DepthAdvantages is layer-wise credit: nodes of one depth are compared,
// (r - mean)/(deviation + 1e-8), deviation with n-1; 0 for a lone node and where the deviation
// is below 1e-6. A missing reward has a missing advantage.
func (t *Tree) DepthAdvantages(rewards []float64) []float64 {
	byDepth := map[int][]int{}
	advantages := make([]float64, len(rewards))
	for n, d := range t.Depth {
		if advantages[n] = rewards[n]; !math.IsNaN(rewards[n]) {
			byDepth[d] = append(byDepth[d], n)
			advantages[n] = 0
		}
	}
	for _, nodes := range byDepth {
		mean, squares := 0.0, 0.0
		for _, n := range nodes {
			mean += rewards[n] / float64(len(nodes))
		}
		for _, n := range nodes {
			squares += float64((rewards[n] - mean) * (rewards[n] - mean))
		}
		deviation := math.Sqrt(squares / float64(len(nodes)-1))
		if len(nodes) < 2 || deviation < 1e-6 {
			continue
		}
		for _, n := range nodes {
			advantages[n] = (rewards[n] - mean) / (deviation + 1e-8)
		}
	}
	return advantages
}

// A TreeKind is a way in which samples branch. Its value is above the formula (Growth); TreeKinds lists all.
type TreeKind struct {
	Name  string
	Card  string // a sentence: its description and its source
	Trunk bool   // all branches leave one path without noise, and those of a step are compared; otherwise nodes of a depth are

	Check  func(o TreeOptions, report func(key, problem, hint string))                             // limits of its options
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

// Check reports settings of a tree of steps that contradict each other.
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

// Layout is the tree that Run grows of steps, as far as its shape goes: log-probabilities are
// 0. ways[leaf] are the nodes on the way to a leaf, the first one after the first step.
//
// Invariant (test): it is Run's tree.
func (g Growth) Layout(steps int) (t *Tree, ways [][]int) {
	still := func(int) Row { return Row{} }
	g.Stochastic, g.Deterministic = still, still
	nothing := func() []float64 { return nil }
	t, _, _ = g.Run(steps, nil, func([]float64, int) []float64 { return nil }, nothing)
	for _, leaf := range t.Leaves {
		way := make([]int, steps)
		for n := leaf; n > 0; n = t.Parent[n] {
			way[t.Step[n]-1] = n
		}
		ways = append(ways, way)
	}
	return t, ways
}

// Pruning leaves edges out of training (the samples are made all the same):
//
//	depth  edges whose child has a listed depth; sliding moves the list towards the root by
//	       one every SlideEvery updates, until its first reaches StopDepth
//	width  of the edges after the last split: "branch" keeps, below each branch, the share
//	       Ratio with the best advantages (at least one); "ends" keeps the best and the
//	       worst k/2, k = max(2, the share of all)
//	mixed  edges that did not draw
//
// Depth and width stop at the share Until of the updates. Edges whose advantage is missing are
// never trained.
type Pruning struct {
	Depths      []int   `toml:"depths" doc:"depths whose edges are not trained"`
	Slide       bool    `toml:"slide" doc:"move the depths towards the root"`
	SlideEvery  int     `toml:"slide_every" range:"[1,inf)" doc:"updates between moves"`
	StopDepth   int     `toml:"stop_depth" doc:"where sliding stops; -1: at the last split"`
	Width       string  `toml:"width" enum:"none,branch,ends" doc:"which edges after the last split are trained"`
	Ratio       float64 `toml:"ratio" range:"[0,1]" doc:"the share that width keeps"`
	Until       float64 `toml:"until" range:"[0,1]" doc:"the share of updates after which nothing is pruned"`
	Mixed       bool    `toml:"mixed" doc:"only edges that drew"`
	MixedWindow int     `toml:"mixed_window" range:"[0,inf)" doc:"steps that draw, every slide_every"`
}

// Kept are the children of the edges that are trained at an update, ascending.
func (p Pruning) Kept(t *Tree, advantages []float64, splits []int, steps, update, updates int) []int {
	edges := slices.DeleteFunc(span(1, len(t.Parent)), func(n int) bool { return math.IsNaN(advantages[n]) })
	last := 0
	for _, s := range splits {
		last = max(last, s)
	}
	if p.Mixed {
		edges = slices.DeleteFunc(edges, func(n int) bool {
			step := t.Step[t.Parent[n]]
			return !slices.Contains(splits, step) && !InMixedWindow(step, steps, p.MixedWindow, max(1, p.SlideEvery))
		})
	}
	depths, narrow := p.At(splits, update, updates)
	edges = slices.DeleteFunc(edges, func(n int) bool { return slices.Contains(depths, t.Depth[n]) })
	if narrow {
		edges = p.narrow(t, edges, advantages, last)
	}
	slices.Sort(edges)
	return edges
}

// At returns the depths that an update prunes, and whether it chooses among late edges.
func (p Pruning) At(splits []int, update, updates int) (depths []int, narrow bool) {
	if update > int(float64(updates)*p.Until) {
		return nil, false
	}
	last := 0
	for _, s := range splits {
		last = max(last, s)
	}
	if len(p.Depths) > 0 {
		depths = p.depths(last, update)
	}
	return depths, p.Width == "branch" || p.Width == "ends"
}

// depths are the listed ones, moved.
func (p Pruning) depths(lastSplit, update int) []int {
	depths := slices.Clone(p.Depths)
	slices.Sort(depths)
	if !p.Slide {
		return depths
	}
	stop := p.StopDepth
	if stop < 0 {
		stop = lastSplit
	}
	shift := min(update/max(p.SlideEvery, 1), max(0, depths[0]-stop))
	for i := range depths {
		depths[i] -= shift
	}
	return depths
}

// narrow keeps some of the edges after the last split.
func (p Pruning) narrow(t *Tree, edges []int, advantages []float64, last int) []int {
	best := func(a, b int) int {
		switch {
		case advantages[a] > advantages[b]:
			return -1
		case advantages[a] < advantages[b]:
			return 1
		}
		return 0
	}
	var kept, late []int
	for _, n := range edges {
		if t.Step[t.Parent[n]] > last {
			late = append(late, n)
		} else {
			kept = append(kept, n)
		}
	}
	if p.Width == "ends" {
		k := max(2, int(float64(len(late))*p.Ratio))
		slices.SortStableFunc(late, best)
		high := min(k/2, len(late))
		return append(append(kept, late[:high]...), late[max(high, len(late)-(k-k/2)):]...)
	}
	branches := map[int][]int{}
	for _, n := range late {
		root := t.Parent[n]
		for t.Step[root] > last+1 && t.Parent[root] >= 0 {
			root = t.Parent[root]
		}
		branches[root] = append(branches[root], n)
	}
	for _, nodes := range branches {
		slices.SortStableFunc(nodes, best)
		kept = append(kept, nodes[:max(1, int(float64(len(nodes))*p.Ratio))]...)
	}
	return kept
}
