package experiment

import (
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
	g.Draws = func(step int) bool { return slices.Contains(window, step) }
	if p := s.Tree.Prune; p.Mixed {
		g.Draws = func(step int) bool { return sde.InMixedWindow(step, s.Steps, p.MixedWindow, p.SlideEvery) }
	}
	return g, nil
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

// Credit is the advantage of every node of a prompt's trees, by the rewards of their
// leaves: by layers of a tree that branches, by steps of trees with a trunk.
func (e *Experiment) Credit(trees []*sde.Tree, rewards [][]float64) ([][]float64, error) {
	if e.Sampler.Tree.Kind == "trunk" {
		return advantage.Branches(e.Advantage.Options, trees, rewards)
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
