package experiment

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// What becomes of [sampler.tree].

// Growth is how an iteration's trees are made.
func (s Sampler) Growth(window []int) (sde.Growth, error) {
	schedule, err := s.schedule(s.Steps)
	if err != nil {
		return sde.Growth{}, err
	}
	inside, err := s.row(s.Solver)
	if err != nil {
		return sde.Growth{}, err
	}
	outside, err := s.row(s.Outside)
	if err != nil {
		return sde.Growth{}, err
	}
	g := s.Tree.Growth(window)
	g.Stochastic = func(step int) sde.Row { return inside(schedule, step) }
	g.Deterministic = func(step int) sde.Row { return outside(schedule, step) }
	between := s.Tree.Between(window, s.Steps)
	g.Draws = func(step int) bool { return slices.Contains(between, step) }
	return g, nil
}

// Samples is how many samples of a prompt an iteration rolls: a group, or the leaves of the
// prompt's trees.
func (t Turn) Samples() int {
	if tree := t.Sampler.Tree; tree != nil && t.Episode == nil {
		return tree.Of().Starts(*tree, t.Rollout.Group) * tree.Growth(t.Window).Leaves()
	}
	return t.Rollout.Group
}

// Credit is the advantage of every node of some trees, by the rewards of their leaves: by layers
// of a tree that branches, by steps of trees with a trunk, which prompts tells apart.
func (e *Experiment) Credit(prompts []int, trees []*sde.Tree, rewards [][]float64) ([][]float64, error) {
	if e.Sampler.Tree.Of().Trunk {
		return advantage.Branches(e.Advantage.Options, prompts, trees, rewards)
	}
	var all [][]float64
	for i, t := range trees {
		a, err := advantage.Layers(t, rewards[i], e.Sampler.Tree.Fuse == "probability", e.Advantage.Clip)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Judged are the edges of a tree that an iteration trains, by the nodes that they lead to: those
// that drew, less what is pruned. Pruning counts the stage's iterations from 1.
func (t Turn) Judged(tree *sde.Tree, advantages []float64) []int {
	drew := slices.Clone(advantages)
	for n := range drew {
		if !tree.SDE[n] {
			drew[n] = math.NaN()
		}
	}
	s := t.Sampler
	return s.Tree.Prune.Kept(tree, drew, s.Tree.Growth(t.Window).Splits, s.Steps, t.Iteration+1, t.Run.Iterations)
}
