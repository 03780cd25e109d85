package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
)

// A Plan is what an experiment amounts to, before anything runs.
type Plan struct {
	Name       string      `json:"name"`
	Iterations int         `json:"iterations"`
	Stages     []StagePlan `json:"stages"` // one where the file has none
	Seed       int         `json:"seed"`
	Facts      []Fact      `json:"facts"`
	Seeds      []Seed      `json:"seeds"`

	// Published is where presets and recipe have their numbers from, and what differs.
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
