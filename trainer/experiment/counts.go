package experiment

import (
	"github.com/darkroom-rl/darkroom/sde"
)

// Counts are passes of the network an iteration, on average; guidance by two outputs
// counts twice. Full is what the same samples cost where every step is taken for
// every sample, and all of them are trained.
type Counts struct {
	Samples     float64 `json:"samples"`
	Rollout     float64 `json:"rollout_forwards"`
	Shared      float64 `json:"shared_forwards"` // computed once for a group, left out of rollout
	Reference   float64 `json:"reference_forwards"`
	Train       float64 `json:"train_forwards"`
	Backward    float64 `json:"backwards"`
	FullForward float64 `json:"full_forwards"`
	FullBack    float64 `json:"full_backwards"`
}

// A workload adds passes over iterations.
type workload struct{ samples, rollout, shared, reference, train, back float64 }

// add counts one iteration.
func (w *workload) add(e *Experiment, window, trained []int) {
	s, groups, group := e.Sampler, float64(e.Rollout.PromptsPerIteration), float64(e.Rollout.Group)
	cost := e.passes()
	var rollout, shared float64
	switch {
	case s.Tree != nil:
		tree := s.Tree.shape(window)
		starts := groups * float64(s.Tree.starts(e.Rollout.Group))
		for _, n := range tree.Passes(s.Steps) {
			rollout += starts * n
		}
		w.samples += starts * float64(tree.Leaves())
		shared = starts*float64(tree.Leaves()*s.Steps) - rollout
	default:
		steps := s.steps(window)
		if e.Rollout.SharedNoise && !e.objective().Noised && e.Sampler.Outside != e.Sampler.Solver {
			shared = groups * (group - 1) * float64(sde.SharedPrefix(window))
		}
		rollout = groups*group*float64(steps) - shared
		w.samples += groups * group
	}
	if e.Rollout.Offline {
		rollout, shared = 0, 0
	}
	if e.Advantage.BestOf > 0 {
		group = float64(e.Advantage.BestOf)
	}
	if b := e.Rollout.Buffer; b != nil {
		groups += float64(b.Groups) // of earlier iterations
	}
	judged := groups * group * float64(len(trained))
	if s.Tree != nil {
		judged = groups * s.Tree.judged(e.Rollout.Group, s.Steps, window, trained)
	}
	if e.objective().Noised {
		judged = groups * group * e.points()
		if e.objective().Pairs {
			judged = groups * 2 * float64(e.Loss.Times)
		}
	}
	w.rollout, w.shared = w.rollout+cost*rollout, w.shared+cost*max(shared, 0)
	updates := e.sees()
	w.train, w.back = w.train+cost*judged*updates, w.back+cost*judged*updates
	rolled := e.Loss.KL.Reference == "old" && e.objective().Ratio // which is known
	if e.Loss.KL.Weight > 0 && !rolled || e.Loss.Objective == "dpo" || e.Loss.Objective == "dgpo" {
		w.reference += cost * judged
	}
	if e.Loss.Objective == "nft" {
		w.reference += cost * judged // and once with the old weights
	}
}

// sees is how often an iteration's updates see a sample.
func (e *Experiment) sees() float64 {
	if e.Optim.Split {
		return 1
	}
	return float64(e.Optim.Updates)
}

// judged is how many nodes of a prompt's trees are trained: one output serves all children.
func (t Tree) judged(group, steps int, window, trained []int) float64 {
	if t.Kind == "trunk" {
		return float64(t.starts(group) * len(trained))
	}
	passes, n := t.shape(window).Passes(steps), 0.0
	for _, step := range trained {
		n += passes[step]
	}
	return n
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

func (w workload) counts(e *Experiment, iterations int) *Counts {
	n := float64(max(iterations, 1))
	samples := w.samples / n
	full := e.passes() * samples * float64(e.Sampler.Steps)
	return &Counts{
		Samples: samples, Rollout: w.rollout / n, Shared: w.shared / n, Reference: w.reference / n,
		Train: w.train / n, Backward: w.back / n,
		FullForward: full * (1 + e.sees()), FullBack: full * e.sees(),
	}
}
