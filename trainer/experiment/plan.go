package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// A Plan is an experiment's meaning, before anything runs.
type Plan struct {
	Name       string      `json:"name"`
	Iterations int         `json:"iterations"`
	Stages     []StagePlan `json:"stages"` // one where the file has none
	Seed       int         `json:"seed"`
	Facts      []Fact      `json:"facts"`
	Seeds      []Seed      `json:"seeds"`

	// Published has the sources of numbers of presets and recipe, and the departures.
	Published []Provenance `json:"published,omitempty"`
	Warnings  []string     `json:"warnings"`
}

// A StagePlan is the plan of a stage.
type StagePlan struct {
	Name       string     `json:"name,omitempty"`
	First      int        `json:"first"` // iteration, counted from 1
	Iterations int        `json:"iterations"`
	Planned    int        `json:"planned"` // the first ones, which windows, coverage and counts are of
	Facts      []Fact     `json:"facts"`
	Solver     string     `json:"solver,omitempty"`
	Outside    string     `json:"outside,omitempty"`
	Schedule   string     `json:"schedule,omitempty"`
	Signal     bool       `json:"signal,omitempty"`   // from and to are shares of signal, not sigmas
	Rows       []PlanRow  `json:"rows,omitempty"`     // of the first iteration
	Windows    []Position `json:"windows,omitempty"`  // iteration by iteration, in runs
	Coverage   []int      `json:"coverage,omitempty"` // iterations that train each step, for a prompt on average
	Counts     *Counts    `json:"counts,omitempty"`
}

// A PlanRow is a step of the sampler: next = x·Latents + Σ Outputs·network + Noise·z.
type PlanRow struct {
	Step    int       `json:"step"`
	From    float64   `json:"from"`
	To      float64   `json:"to"`
	Latents []float64 `json:"x"`      // by lag
	Outputs []float64 `json:"output"` // by lag
	Noise   float64   `json:"deviation"`
	Trained bool      `json:"trained"`

	density sde.Density
}

// A Position is the window of some iterations in a row, counted from 1.
type Position struct {
	First int   `json:"first"`
	Last  int   `json:"last"`
	Steps []int `json:"steps"`
}

// mostPositions bounds the list of windows that move at random, mostPlanned the
// iterations that are gone through.
const (
	mostPositions = 40
	mostPlanned   = 20000
)

// Plan makes the plan.
func (e *Experiment) Plan() (*Plan, error) {
	p := &Plan{Name: e.Run.Name, Iterations: e.Run.Iterations, Seed: e.Run.Seed, Facts: e.facts(), Seeds: e.seeds(), Warnings: []string{}}
	stages := e.Stages
	if len(stages) == 0 {
		stages = []Stage{{Iterations: e.Run.Iterations, Sampler: e.Sampler, Rollout: e.Rollout, Advantage: e.Advantage, Loss: e.Loss, Optim: e.Optim, Together: e.Together}}
	}
	first, whole := 0, coverage{}
	for _, s := range stages {
		at := e.at(s)
		one := StagePlan{Name: s.Name, First: first + 1, Iterations: s.Iterations, Facts: at.stageFacts()}
		if e.Episode == nil {
			if err := at.planSampling(&one); err != nil {
				return nil, fmt.Errorf("planning the iterations from %d on: %w", one.First, err)
			}
		}
		whole.add(one)
		for _, w := range at.warnings(one) {
			if !slices.Contains(p.Warnings, w) {
				p.Warnings = append(p.Warnings, w)
			}
		}
		p.Stages = append(p.Stages, one)
		first += s.Iterations
	}
	p.Warnings = append(append(whole.warnings(), p.Warnings...), e.idle()...)
	var err error
	p.Published, err = e.provenance()
	return p, err
}

// planSampling fills rows, windows, coverage and counts.
func (e *Experiment) planSampling(p *StagePlan) error {
	p.Solver, p.Outside, p.Schedule = e.Sampler.Solver, e.Sampler.Outside, e.Sampler.Schedule.Kind
	times := make([]float64, e.Sampler.Steps)
	var work workload
	planned := min(p.Iterations, mostPlanned)
	for i := range planned {
		window := e.window(p.First - 1 + i)
		trained := e.trained(window)
		for s, share := range e.shares(trained) {
			times[s] += share
		}
		if n := len(p.Windows); n > 0 && slices.Equal(p.Windows[n-1].Steps, window) {
			p.Windows[n-1].Last++
		} else {
			p.Windows = append(p.Windows, Position{p.First + i, p.First + i, window})
		}
		work.add(e, i, window, trained)
	}
	schedule, rows, err := e.Sampler.rows(e.drawn(p.Windows[0].Steps))
	if err != nil {
		return err
	}
	p.Signal = schedule.Alpha != nil
	trained := e.trained(p.Windows[0].Steps)
	for _, r := range rows {
		p.Rows = append(p.Rows, planRow(r, schedule, slices.Contains(trained, r.Step)))
	}
	for _, n := range times {
		p.Coverage = append(p.Coverage, int(math.Ceil(n-1e-9))) // a step that is ever trained is above 0
	}
	p.Planned, p.Counts = planned, work.counts(e, planned)
	if len(p.Windows) > mostPositions {
		p.Windows = p.Windows[:mostPositions]
	}
	if e.Kind().OfFinished() {
		p.Windows, p.Coverage = nil, nil
	}
	return nil
}

// shares are the parts of an iteration's prompts whose samples are trained at each step, on average: all of them, but
// where each prompt has a step or a window of its own.
func (e *Experiment) shares(trained []int) []float64 {
	w, all := e.Sampler.Window, make([]float64, e.Sampler.Steps)
	if w.Own && !e.Kind().OfFinished() {
		all = w.OwnShares(e.Sampler.Steps)
	}
	of := 1.0
	if w.One {
		of = float64(len(trained))
	}
	for s := range all {
		switch {
		case !slices.Contains(trained, s):
			all[s] = 0
		case !w.Own || e.Kind().OfFinished():
			all[s] = 1 / of
		}
	}
	return all
}

// planRow is a row as it is shown. Where a predicted clean sample is cut, the
// coefficients are those of a prediction within its bounds.
func planRow(r sde.Row, s sde.Schedule, trained bool) PlanRow {
	p := PlanRow{Step: r.Step, From: r.From, To: r.To, Noise: r.Noise, Trained: trained, density: r.Density}
	add := func(to []float64, from []float64, gain float64) []float64 {
		for i, c := range from {
			if i == len(to) {
				to = append(to, 0)
			}
			to[i] += gain * c
		}
		return to
	}
	p.Latents = add(add(nil, r.Next.X, 1), r.Next.Y, 1)
	p.Outputs = add(nil, r.Next.Out, 1)
	if r.Clamp != nil {
		p.Latents, p.Outputs = add(p.Latents, r.Clamp.Of.X, r.Clamp.Gain), add(p.Outputs, r.Clamp.Of.Out, r.Clamp.Gain)
	}
	return p
}

// drawn are the steps that are taken by the solver: the window's, those of a tree,
// or all where the objective looks at the final sample only.
func (e *Experiment) drawn(window []int) []int {
	if e.Kind().OfFinished() {
		var all []int
		for i := range e.Sampler.Steps {
			all = append(all, i)
		}
		return all
	}
	if e.Sampler.Tree == nil {
		return window
	}
	tree := e.Sampler.Tree.Growth(window)
	if tree.Trunk {
		return tree.Splits // elsewhere nothing does
	}
	all := slices.Concat(e.Sampler.Tree.Between(window, e.Sampler.Steps), tree.Splits) // splits always draw
	slices.Sort(all)
	return slices.Compact(all)
}

// trained are the steps whose choices are judged.
func (e *Experiment) trained(window []int) []int {
	if e.Kind().OfFinished() {
		return e.tail()
	}
	return e.drawn(window)
}

// Counts are passes of the network an iteration, on average; guidance by two outputs counts twice. Full is the cost
// of the same samples where every step is taken for every sample, and all of them are trained.
type Counts struct {
	Samples     float64 `json:"samples"`
	Rollout     float64 `json:"rollout_forwards"`
	Shared      float64 `json:"shared_forwards"` // computed once for a group, left out of rollout
	Reference   float64 `json:"reference_forwards"`
	Train       float64 `json:"train_forwards"`
	Backward    float64 `json:"backwards"`
	FullForward float64 `json:"full_forwards"`
	FullBack    float64 `json:"full_backwards"`
	Judged      float64 `json:"-"` // points of the network in an update
}

// A workload adds passes over iterations.
type workload struct{ samples, rollout, shared, reference, train, back, judged float64 }

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
	w.judged += judged * updates / float64(max(1, e.Optim.Updates))
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
	case !e.Rollout.SharedNoise || s.Tree != nil || e.Rollout.TextNoise != nil: // whose texts differ
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

// EvaluationPasses are the passes of an evaluation of this number of samples.
func (e *Experiment) EvaluationPasses(samples int) float64 {
	return float64(samples*e.Sampler.EvalSteps) * e.passes()
}

// GuidedPasses are the passes of one measurement with evaluate.guided; 0 without it.
func (e *Experiment) GuidedPasses(samples int) float64 {
	if e.Evaluate.Guided == 0 {
		return 0
	}
	return float64(samples*e.Sampler.EvalSteps) * e.passesAt(e.Evaluate.Guided)
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
		Train: w.train / n, Backward: w.back / n, Judged: w.judged / n,
		FullForward: full * (1 + e.sees()), FullBack: full * e.sees(),
	}
}

// A Seed is a purpose that random numbers are drawn for, and the coordinates of each draw: draws depend on nothing
// else, neither batches nor threads nor resuming.
type Seed struct {
	Purpose     rng.Purpose `json:"purpose"`
	Coordinates string      `json:"coordinates"`
	Draws       string      `json:"draws"`
}

// The purposes.
const (
	startNoise rng.Purpose = "start noise"
	stepNoise  rng.Purpose = "step noise"
	windowDraw rng.Purpose = "window"
	oneDraw    rng.Purpose = "the one step"
	ownDraw    rng.Purpose = "own window"
	promptDraw rng.Purpose = "prompts"
	evalNoise  rng.Purpose = "evaluation"
	shared     rng.Purpose = "shares"
	timesDrawn rng.Purpose = "times"
	tokens     rng.Purpose = "tokens"
	programs   rng.Purpose = "programs"
	curriculum rng.Purpose = "curriculum"
	passRates  rng.Purpose = "pass rates"
	bufferDraw rng.Purpose = "buffer"
	skipDraw   rng.Purpose = "skip"
	filtration rng.Purpose = "filtration"
	masking    rng.Purpose = "masked pictures"
	shuffling  rng.Purpose = "shuffled frames"
	imitated   rng.Purpose = "imitated"
	branching  rng.Purpose = "branches"
	textNoise  rng.Purpose = "text noise"
)

// seeds lists this experiment's draws.
func (e *Experiment) seeds() []Seed {
	all := []Seed{{promptDraw, "iteration", "which prompts are rolled"}}
	sample := "iteration, prompt, sample"
	tree := e.Sampler.Tree != nil && e.Episode == nil
	switch {
	case tree:
		all = append(all, Seed{startNoise, "iteration, prompt, tree", "the noise that a tree starts from"})
	case e.Rollout.SharedNoise:
		all = append(all, Seed{startNoise, "iteration, prompt", "the noise that a group starts from"})
	default:
		all = append(all, Seed{startNoise, sample, "the noise that a sample starts from"})
	}
	if e.Rollout.TextNoise != nil {
		all = append(all, Seed{textNoise, sample, "the noise in the text that a sample is made by"})
	}
	switch {
	case e.Episode != nil:
		all = []Seed{all[0], {tokens, sample + ", token", "the tokens of an episode"}}
		if e.Episode.Exec != nil {
			all = append(all, Seed{programs, sample, "what random and numpy.random begin at in an episode's code"})
		}
		if e.Episode.Shuffled != nil {
			all = append(all, Seed{shuffling, "iteration, prompt, clip", "the order in which a control sees a clip's frames"})
		}
		if e.Episode.Tree != nil {
			all = append(all, Seed{branching, sample, "where a branch parts from its tree"})
		}
		if e.Loss.Perception.On() {
			all = append(all, Seed{masking, "iteration, prompt, picture", "which patches of a picture are masked"})
		}
		if e.Imitates() {
			all = append(all, Seed{imitated, "iteration", "which written answers are learned from"})
		}
	case tree:
		all = append(all, Seed{stepNoise, "iteration, prompt, tree, step, branch", "the noise of a branch's step"})
	case e.Kind().OfFinished():
		if s, ok := sde.SolverNamed(e.Sampler.Solver); ok && s.Stochastic {
			all = append(all, Seed{stepNoise, sample + ", step", "the noise of a step"})
		}
	default:
		all = append(all, Seed{stepNoise, sample + ", step", "the noise of a step in the window"})
	}
	if w := e.Sampler.Window; e.Episode == nil && !e.Kind().OfFinished() && w.Own {
		all = append(all, Seed{ownDraw, "iteration, prompt", "the position of a prompt's window"})
	} else if k, _ := sde.WindowNamed(w.Kind); e.Episode == nil && !e.Kind().OfFinished() && k.Draws {
		all = append(all, Seed{windowDraw, "iteration", "the position of the window"})
	}
	if e.Sampler.Window.One && e.Episode == nil && !e.Kind().OfFinished() {
		all = append(all, Seed{oneDraw, "iteration, prompt", "at which step of the window a prompt draws"})
	}
	if e.Kind().OfFinished() {
		all = append(all, Seed{timesDrawn, sample + ", step", "times and noise of the objective"})
	}
	if e.Optim.Split && e.Optim.Updates > 1 {
		all = append(all, Seed{shared, "iteration", "which update sees which samples"})
	}
	if e.Rollout.Curriculum != nil {
		all[0] = Seed{curriculum, "iteration, attempt", "which prompts are rolled"}
	}
	if e.Rollout.Skip != nil {
		all = append(all, Seed{skipDraw, "place in the list", "which prompts are skipped"})
	}
	if e.Rollout.Buffer != nil {
		all = append(all, Seed{bufferDraw, "iteration", "which groups are learned from again"})
	}
	if e.Advantage.BestOf > 1 && e.Advantage.BestBy == "drawn" {
		all = append(all, Seed{filtration, "iteration, prompt", "which samples are learned from beside a group's best"})
	}
	if f := e.Rollout.Filter; f != nil && f.Path == "" {
		all = append(all, Seed{passRates, "prompt, sample (and step)", "the noise of samples that pass rates are measured by"})
	}
	return append(all, Seed{evalNoise, "prompt, sample (of evaluate.seed)", "the noise of held-out samples, the same in every evaluation"})
}

// window is the steps that an iteration trains, as far as the window says: those of any prompt, where each has its own.
func (e *Experiment) window(iteration int) []int {
	draw := rng.New(uint64(e.Run.Seed)).With(windowDraw).Iteration(iteration).Draw()
	if w := e.Sampler.Window; w.Own {
		return w.Reach(e.Sampler.Steps)
	}
	return e.Sampler.Window.Steps(e.Sampler.Steps, iteration, draw.Intn)
}
