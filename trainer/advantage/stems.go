package advantage

import "fmt"

// Card: samples that share their beginnings (Tree-GRPO; Ji et al., arXiv 2509.21240; core_algos.py and
// ray_trainer_ts.py of its code). A prompt has several trees, and a tree several samples, which part at some point:
//
//	A = A among the samples of the prompt + A among the samples of the tree
//
// both by the same rule; Clip bounds the sum. A tree of one sample compares it with nothing, as a group of one.
//
// Invariants (tests): the authors' sums on recorded scores; with one tree a prompt both terms are the same.

// InTrees is Advantages, with what each sample is worth within its tree added. trees are numbers, which no two prompts
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
