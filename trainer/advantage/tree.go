package advantage

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// Credit in trees of samples. The result is the advantage of every node, which is that of the edge that leads to it;
// an edge that decided nothing has 0.
//
//	Layers    nodes of one depth are compared, with the rewards of the leaves below them
//	          (BranchGRPO's layer-wise credit; the fusing and its conventions are sde's)
//	Branches  leaves that left their trunks at one step are compared, over all trees of a
//	          prompt, as groups of their own; a leaf's one choice is due all of it (TempFlow,
//	          whose tracker has a mean and a deviation a step: group, ddof 0, eps 1e-4).
//	          "batch" in the options means all steps of all prompts
//
// Invariants (tests): a layer's, and a step's, advantages add up to 0; a missing reward changes
// no other tree or step, and is due to nobody.

// Layers is layer-wise credit of one tree's leaves.
func Layers(t *sde.Tree, rewards []float64, byProbability bool, clip float64) ([]float64, error) {
	if len(rewards) != len(t.Leaves) {
		return nil, fmt.Errorf("a tree of %d leaves has %d rewards", len(t.Leaves), len(rewards))
	}
	a := t.DepthAdvantages(t.Fuse(rewards, byProbability))
	for n := range a {
		a[n] = Options{Clip: clip}.clipped(a[n])
	}
	return a, nil
}

// Branches is credit by steps of trees; prompts says whose each is.
func Branches(o Options, prompts []int, trees []*sde.Tree, rewards [][]float64) ([][]float64, error) {
	if len(trees) != len(rewards) || len(trees) != len(prompts) {
		return nil, fmt.Errorf("%d trees have rewards of %d and prompts of %d", len(trees), len(rewards), len(prompts))
	}
	type step struct{ prompt, step int }
	groups, numbers := []int{}, map[step]int{}
	var all []float64
	out := make([][]float64, len(trees))
	for i, t := range trees {
		if len(rewards[i]) != len(t.Leaves) {
			return nil, fmt.Errorf("a tree of %d leaves has %d rewards", len(t.Leaves), len(rewards[i]))
		}
		out[i] = make([]float64, len(t.Parent))
		for k, leaf := range t.Leaves {
			n := t.Drawn(leaf)
			if n < 0 {
				return nil, fmt.Errorf("leaf %d of tree %d is due to no choice: nothing was drawn on its way", k, i)
			}
			at := step{prompts[i], t.Step[t.Parent[n]]}
			if _, ok := numbers[at]; !ok {
				numbers[at] = len(numbers)
			}
			groups, all = append(groups, numbers[at]), append(all, rewards[i][k])
		}
	}
	a, err := o.Of(groups, all)
	if err != nil {
		return nil, err
	}
	for i, t := range trees {
		for _, leaf := range t.Leaves {
			out[i][t.Drawn(leaf)], a = a[0], a[1:]
			if math.IsNaN(out[i][t.Drawn(leaf)]) {
				out[i][leaf] = math.NaN()
			}
		}
	}
	return out, nil
}

// TreeRule is BranchGRPO's.
var TreeRule = Rule{
	Name: "tree", Card: "Layer-wise credit: nodes of a tree compared with those of the same depth (BranchGRPO).",
	Paper: "BranchGRPO (2025)", Formula: "nodes of one depth compared, by the fused rewards of their leaves", Cases: []string{"tree.fuse"},
	Edges: true,
}

// Card: samples that share their beginnings (Tree-GRPO; Ji et al., arXiv 2509.21240; core_algos.py and
// ray_trainer_ts.py of its code). A prompt has several trees, and a tree several samples, which part at some point:
//
//	A = A among the samples of the prompt + A among the samples of the tree
//
// both by the same rule; Clip bounds the sum. A tree of one sample compares it with nothing, as a group of one.
//
// Invariants (tests): the authors' sums on recorded scores; with one tree a prompt both terms are the same.

// InTrees is Advantages, with each sample's advantage within its tree added. trees are numbers, which no two prompts
// share.
func (e Estimator) InTrees(b Batch, trees []int) ([]float64, Stats, error) {
	if len(trees) != len(b.Groups) {
		return nil, Stats{}, fmt.Errorf("trees of %d samples, and there are %d", len(trees), len(b.Groups))
	}
	clip := e.Options
	e.Clip = 0 // of the sum, not of both terms
	a, stats, err := e.Advantages(b)
	if err != nil {
		return nil, stats, err
	}
	b.Groups = trees
	within, _, err := e.Advantages(b)
	for i := range within {
		a[i] = clip.clipped(a[i] + within[i])
	}
	return a, stats, err
}
