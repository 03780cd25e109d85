package sample

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
)

// plan is the flags' meaning for one pipeline.
type plan struct {
	pipeline.Sampler
	solver   string
	steps    int
	draws    bool
	guidance float64
}

// plan holds the flags against the pipeline. An error is the user's mistake, and is found before any weight is read.
func (o *options) plan(p *pipeline.Pipeline) (*plan, error) {
	d := p.Defaults()
	if o.from != nil {
		d.Steps, d.Guidance = o.from.Sampler.EvalSteps, o.from.Sampler.Guidance
	}
	plan := &plan{solver: o.solver, steps: cmp.Or(o.steps, d.Steps), guidance: d.Guidance}
	if o.guided {
		plan.guidance = o.guidance
	}
	var err error
	if plan.At, err = o.shape(p); err != nil {
		return nil, err
	}
	if _, err := p.Tiling(); err != nil {
		return nil, err
	}
	switch {
	case o.from != nil && o.trueCFG == 0:
		plan.Guidance = o.guideAs(plan.guidance)
	case d.Embedded:
		plan.Guidance = pipeline.Guidance{Embedded: plan.guidance, Scale: o.trueCFG}
	case d.TrueCFG && o.guided:
		return nil, fmt.Errorf("--guidance: this network reads no scale\nhint: --true-cfg with --negative combines two outputs")
	case d.TrueCFG:
		plan.Guidance, plan.guidance = pipeline.Guidance{Scale: o.trueCFG}, 0
	case o.trueCFG > 0:
		return nil, fmt.Errorf("--true-cfg is for networks that read --guidance themselves; here --guidance is what combines two outputs")
	default:
		plan.Guidance = pipeline.Guidance{Scale: plan.guidance, Second: o.second, Norm: d.Norm}
	}
	if o.most > 0 {
		if !plan.Guidance.Combines() || plan.Guidance.Norm {
			return nil, fmt.Errorf("--cfg-normalization is not read: nothing combines two outputs here, or they keep their length already\nhint: a scale above 1 is needed")
		}
		plan.Guidance.Most = o.most
	}
	if err := p.CheckGuidance(plan.Guidance); err != nil {
		return nil, fmt.Errorf("--guidance-2: %w", err)
	}
	if o.negative != "" && !plan.Guidance.Combines() {
		return nil, fmt.Errorf("--negative is not read: nothing combines two outputs here\nhint: a scale above 1 is needed")
	}
	plan.Batch = o.batch
	if o.from != nil && o.solver == "" {
		return plan, plan.evaluated(o.from)
	}
	return plan, plan.place(p, o.noise)
}

// place makes the rows.
func (plan *plan) place(p *pipeline.Pipeline, noise float64) (err error) {
	if plan.solver == "" {
		plan.solver = p.Solver()
		plan.Rows, plan.Times, err = p.Place(nil, 0, plan.steps, plan.At)
		return err
	}
	solver, err := solverNamed(plan.solver)
	if err != nil {
		return err
	}
	plan.Rows, plan.Times, err = p.Place(&solver, noise, plan.steps, plan.At)
	if unfit := (pipeline.Unfit{}); errors.As(err, &unfit) {
		return fmt.Errorf("--solver %w", err)
	}
	plan.draws = slices.ContainsFunc(plan.Rows, sde.Row.Stochastic)
	return err
}

// solverNamed finds a solver.
func solverNamed(name string) (sde.Solver, error) {
	solver, ok := sde.SolverNamed(name)
	if !ok {
		return solver, fmt.Errorf("there is no solver %q; 'darkroom list solvers' lists them", name)
	}
	return solver, nil
}
