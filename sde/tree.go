package sde

import (
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
