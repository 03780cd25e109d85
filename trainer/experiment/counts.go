package experiment

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
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

// add counts one iteration of the stage.
func (w *workload) add(e *Experiment, iteration int, window, trained []int) {
	s, groups, group := e.Sampler, float64(e.Rollout.PromptsPerIteration), float64(e.Rollout.Group)
	cost := e.passes()
	var rollout, shared float64
	switch {
	case s.Tree != nil:
		tree := s.Tree.Growth(window)
		starts := groups * float64(s.Tree.Of().Starts(*s.Tree, e.Rollout.Group))
		for _, n := range tree.Passes(s.Steps) {
			rollout += starts * n
		}
		w.samples += starts * float64(tree.Leaves())
		shared = starts*float64(tree.Leaves()*s.Steps) - rollout
	default:
		steps := s.steps(window)
		shared = groups * (group - 1) * min(e.togetherOf(window), float64(steps))
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
	switch own, _ := s.Window.OwnMean(s.Steps); {
	case s.Window.One:
		judged = groups * group
	case s.Window.Own && !e.Kind().OfFinished():
		judged = groups * group * own
	}
	if len(trained) > 0 && trained[0] < e.together(window) { // one question for all
		seen := 1.0
		if e.Optim.Split {
			seen = math.Min(float64(e.Optim.Updates), group)
		}
		judged -= groups * (group - seen)
	}
	if s.Tree != nil {
		judged = groups * s.Tree.Of().Judged(*s.Tree, s.Tree.Growth(window), trained, e.Rollout.Group, s.Steps, iteration+1, e.Run.Iterations)
	}
	if e.Kind().OfFinished() {
		judged = groups * group * e.points()
		if e.Kind().Has(loss.SamplePairs) {
			judged = groups * 2 * float64(e.Loss.Times)
		}
	}
	w.rollout, w.shared = w.rollout+cost*rollout, w.shared+cost*max(shared, 0)
	updates := e.sees()
	w.train, w.back = w.train+cost*judged*updates, w.back+cost*judged*updates
	w.reference += judged * updates * e.otherPasses()
}

// otherPasses is how often the network runs for one point with the weights that the
// objective asks beside the current ones.
func (e *Experiment) otherPasses() (n float64) {
	o, kl, cost := e.Kind(), e.Loss.KL, e.passes()
	rolled := kl.Reference == "old" && o.Has(loss.Ratio) // which is known
	if kl.Weight > 0 && !rolled || o.Has(loss.Reference) {
		n += e.passesAt(e.led())
	}
	if o.Has(loss.OldWeights) {
		n += cost
	}
	if o.Has(loss.AverageIfWeighted) && kl.EMAWeight > 0 {
		n += cost
	}
	return n
}

// led is the guidance of the reference.
func (e *Experiment) led() float64 {
	if g := e.Loss.KL.Guidance; g > 0 {
		return g
	}
	return e.Sampler.Guidance
}

// sees is how often an iteration's updates see a sample.
func (e *Experiment) sees() float64 {
	if e.Optim.Split {
		return 1
	}
	return float64(e.Optim.Updates)
}

// together is how many steps the samples of a group are asked about as one: those before the
// first that draws, and that one, whose noise tells them apart.
func (e *Experiment) together(window []int) int {
	s := e.Sampler
	solver, _ := sde.SolverNamed(s.Solver)
	draws := solver.Draws(s.Noise)
	drawn := e.drawn(window)
	switch {
	case !e.Rollout.SharedNoise || s.Tree != nil:
		return 0
	case !draws || len(drawn) == 0 && s.Outside != s.Solver:
		return s.Steps
	case s.Outside == s.Solver:
		return 1
	}
	return drawn[0] + 1
}

// togetherOf is together, on average where a prompt draws at one of the window's steps, or has its own window.
func (e *Experiment) togetherOf(window []int) float64 {
	n := float64(e.together(window))
	if w := e.Sampler.Window; w.Own && !e.Kind().OfFinished() && n > 0 {
		_, first := w.OwnMean(e.Sampler.Steps)
		return first + 1
	}
	if !e.Sampler.Window.One || len(window) == 0 || n == 0 {
		return n
	}
	n = 0
	for _, step := range window {
		n += float64(step+1) / float64(len(window))
	}
	return n
}

// passes is how often the network runs for one output.
func (e *Experiment) passes() float64 { return e.passesAt(e.Sampler.Guidance) }

func (e *Experiment) passesAt(guidance float64) float64 {
	if guidance > 1 && e.Sampler.GuideBy != "embedded" {
		return 2
	}
	return 1
}

// EvaluationPasses are the passes of an evaluation of so many samples.
func (e *Experiment) EvaluationPasses(samples int) float64 {
	return float64(samples*e.Sampler.EvalSteps) * e.passes()
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
