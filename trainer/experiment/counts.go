package experiment

import (
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
)

// Counts are passes of the network an iteration, on average; guidance by two outputs
// counts twice. Full is what the same samples cost where every step is taken for
// every sample, and all of them are trained.
type Counts struct {
	Samples     int     `json:"samples"`
	Rollout     float64 `json:"rollout_forwards"`
	Shared      float64 `json:"shared_forwards"` // computed once for a group, left out of rollout
	Reference   float64 `json:"reference_forwards"`
	Train       float64 `json:"train_forwards"`
	Backward    float64 `json:"backwards"`
	FullForward float64 `json:"full_forwards"`
	FullBack    float64 `json:"full_backwards"`
}

// A workload adds passes over iterations.
type workload struct{ rollout, shared, reference, train, back float64 }

// add counts one iteration.
func (w *workload) add(e *Experiment, window, trained []int) {
	s, groups, group := e.Sampler, float64(e.Rollout.PromptsPerIteration), float64(e.Rollout.Group)
	cost := e.passes()
	var rollout, shared float64
	switch {
	case s.Tree != nil:
		rollout = groups * treeSteps(s, nil)
		shared = groups*group*float64(s.Steps) - rollout
	default:
		steps := s.steps(window)
		if e.Rollout.SharedNoise && !e.objective().Noised && e.Sampler.Outside != e.Sampler.Solver {
			shared = groups * (group - 1) * float64(sde.SharedPrefix(window))
		}
		rollout = groups*group*float64(steps) - shared
	}
	judged := groups * group * float64(len(trained))
	if s.Tree != nil {
		judged = groups * treeSteps(s, trained)
	}
	if e.objective().Noised {
		judged = groups * group * float64(e.Loss.Times)
		if e.objective().Pairs {
			judged = groups * 2 * float64(e.Loss.Times)
		}
	}
	w.rollout, w.shared = w.rollout+cost*rollout, w.shared+cost*max(shared, 0)
	updates := float64(e.Optim.Updates)
	w.train, w.back = w.train+cost*judged*updates, w.back+cost*judged*updates
	if e.Loss.KL.Weight > 0 || e.Loss.Objective == "dpo" || e.Loss.Objective == "dgpo" {
		w.reference += cost * judged
	}
	if e.Loss.Objective == "nft" {
		w.reference += cost * judged // and once with the old weights
	}
}

// passes is how often the network runs for one output.
func (e *Experiment) passes() float64 {
	if e.Sampler.Guidance > 1 && e.Sampler.GuideBy != "embedded" {
		return 2
	}
	return 1
}

// steps is the number of a rollout's steps, shorter with a compressed tail.
func (s Sampler) steps(window []int) int {
	if s.Flash == nil {
		return s.Steps
	}
	schedule, _, err := s.rows(window)
	if err != nil || len(schedule.Sigmas) == 0 {
		return s.Steps
	}
	return schedule.Steps()
}

// treeSteps is how often the network runs in a tree, at all steps (nil) or some: once a
// node, whose output serves all its children.
func treeSteps(s Sampler, some []int) float64 {
	total, wide := 0.0, 1.0
	for step := range s.Steps {
		if some == nil || slices.Contains(some, step) {
			total += wide
		}
		if slices.Contains(s.Tree.Splits, step) {
			wide *= float64(s.Tree.Children)
		}
	}
	return total
}

func (w workload) counts(e *Experiment, iterations int) *Counts {
	n := float64(max(iterations, 1))
	samples := e.Rollout.PromptsPerIteration * e.Rollout.Group
	full := e.passes() * float64(samples*e.Sampler.Steps)
	return &Counts{
		Samples: samples, Rollout: w.rollout / n, Shared: w.shared / n, Reference: w.reference / n,
		Train: w.train / n, Backward: w.back / n,
		FullForward: full * (1 + float64(e.Optim.Updates)), FullBack: full * float64(e.Optim.Updates),
	}
}
