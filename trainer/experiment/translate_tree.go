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
	g := s.Tree.shape(window)
	g.Stochastic = func(step int) sde.Row { return inside(schedule, step) }
	g.Deterministic = func(step int) sde.Row { return outside(schedule, step) }
	between := s.Tree.between(window, s.Steps)
	g.Draws = func(step int) bool { return slices.Contains(between, step) }
	return g, nil
}

// between are the steps at which a tree that branches draws where it does not split: those of the
// window, or of its own windows where it is mixed.
func (t Tree) between(window []int, steps int) []int {
	if !t.Prune.Mixed {
		return window
	}
	var all []int
	for step := range steps {
		if sde.InMixedWindow(step, steps, t.Prune.MixedWindow, t.Prune.SlideEvery) {
			all = append(all, step)
		}
	}
	return all
}

// shape is a tree's, without its steps. A trunk without splits has branches at every
// step of the window.
func (t Tree) shape(window []int) sde.Growth {
	g := sde.Growth{Splits: t.Splits, Children: t.Children, Scale: t.Scale, Trunk: t.Kind == "trunk"}
	if g.Trunk && len(g.Splits) == 0 {
		g.Splits = window
	}
	return g
}

// starts is how many trees a prompt has: one, or with a trunk as many as make up the
// group that is compared at a step.
func (t Tree) starts(group int) int {
	if t.Kind == "trunk" {
		return max(group/t.Children, 1)
	}
	return 1
}

// Samples is how many samples of a prompt an iteration rolls: a group, or the leaves of the
// prompt's trees.
func (t Turn) Samples() int {
	if tree := t.Sampler.Tree; tree != nil && t.Episode == nil {
		return tree.starts(t.Rollout.Group) * tree.shape(t.Window).Leaves()
	}
	return t.Rollout.Group
}

// Credit is the advantage of every node of some trees, by the rewards of their leaves: by layers
// of a tree that branches, by steps of trees with a trunk, which prompts tells apart.
func (e *Experiment) Credit(prompts []int, trees []*sde.Tree, rewards [][]float64) ([][]float64, error) {
	if e.Sampler.Tree.Kind == "trunk" {
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
	return s.Tree.Prune.Kept(tree, drew, s.Tree.shape(t.Window).Splits, s.Steps, t.Iteration+1, t.Run.Iterations)
}
