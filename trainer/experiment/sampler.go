package experiment

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
)

// Sampler is [sampler]: the steps of the window are taken by Solver, all others by
// Outside, evaluations by EvalSolver. An objective that looks at final samples has no
// window: Solver takes every step.
type Sampler struct {
	Preset     string `toml:"preset" doc:"settings of a published system, for this table"`
	Solver     string `toml:"solver" doc:"of the steps that are trained; see darkroom list solvers"`
	Outside    string `toml:"outside" doc:"of the steps that are not"`
	EvalSolver string `toml:"eval_solver" doc:"of evaluations"`
	Steps      int    `toml:"steps" range:"[1,1000]" doc:"of a rollout"`
	EvalSteps  int    `toml:"eval_steps" range:"[1,1000]" doc:"of an evaluation"`
	sde.SolverOptions
	Guidance float64           `toml:"guidance" range:"[0,100]" doc:"scale; 1 or less samples without"`
	Most     float64           `toml:"cfg_normalization" range:"[0,100]" doc:"with guidance_kind = \"cfg\": the largest length of the combined output over the conditional one's (Z-Image); 0: any length"`
	Second   float64           `toml:"guidance_2" range:"[0,100]" doc:"scale of a model's second network (Wan 2.2's A14B); 0: there is one network"`
	Width    int               `toml:"width" range:"[0,16384]" doc:"pixels of a picture, with height; 0: what the model's folder says"`
	Height   int               `toml:"height" range:"[0,16384]" doc:"pixels of a picture, with width"`
	Frames   int               `toml:"frames" range:"[0,4096]" doc:"of a clip; 1: a picture. A model of clips needs it"`
	Sizes    []Size            `toml:"sizes" range:"[1,16384]" doc:"[[width, height], ...] of which one is drawn for each prompt of an iteration; a prompt's own size comes first"`
	Negative string            `toml:"negative" doc:"the text that guidance by two outputs leads away from; a prompt's own comes first"`
	GuideBy  string            `toml:"guidance_kind" enum:"cfg,cfg-norm,embedded" doc:"two outputs combined, the same with the norm kept, or an input of the network"`
	Schedule Schedule          `toml:"schedule"`
	Window   sde.WindowOptions `toml:"window"`
	Flash    *Flash            `toml:"flash" doc:"a compressed tail after the window (MixGRPO-Flash)"`
	Tree     *sde.TreeOptions  `toml:"tree" doc:"samples that branch (BranchGRPO, TempFlow)"`
}

func defaultSampler() Sampler {
	return Sampler{
		Solver: "flow-sde", Outside: "euler", EvalSolver: "euler", Steps: 10, EvalSteps: 28, SolverOptions: sde.DefaultSolverOptions(),
		Guidance: 4.5, GuideBy: "cfg",
		Schedule: Schedule{Kind: "shifted", GridOptions: sde.DefaultGridOptions()},
		Window:   sde.DefaultWindow(),
	}
}

// Schedule is the times that the sampler stops at.
type Schedule struct {
	Kind string `toml:"kind" doc:"see darkroom list schedules"`
	sde.GridOptions

	own int // tokens of a picture, where the file says none: Turn.Of
}

// Flash is a compressed tail.
type Flash struct {
	Ratio float64 `toml:"ratio" range:"(0,1]" doc:"share of the tail's steps that remain"`
	Order int     `toml:"order" range:"[1,3]" doc:"of the multistep solver"`
	All   bool    `toml:"all" doc:"solve every step so, and none by the window's solver"`
}

// SetDefaults is MixGRPO-Flash's.
func (f *Flash) SetDefaults() { *f = Flash{Ratio: 0.4, Order: 2} }

// rows are the steps of an iteration's sampler, and its schedule.
func (s Sampler) rows(window []int) (sde.Schedule, []sde.Row, error) {
	schedule, err := s.schedule(s.Steps)
	if err != nil {
		return schedule, nil, err
	}
	inside, err := s.row(s.Solver)
	if err != nil {
		return schedule, nil, err
	}
	outside, err := s.row(s.Outside)
	if err != nil {
		return schedule, nil, err
	}
	p := sde.Plan{Window: window, Inside: inside, Outside: outside}
	if f := s.Flash; f != nil {
		grid, _ := sde.GridNamed(s.Schedule.Kind) // its schedule was built
		p.Flash = &sde.Flash{Ratio: f.Ratio, Shift: grid.Shifted(s.Schedule.options()), All: f.All, Solver: sde.Multistep{Order: f.Order, LowerOrderFinal: true}, Whole: grid.Whole}
	}
	schedule, rows := p.Rows(schedule)
	return schedule, rows, nil
}

// options are the schedule's, with the tokens of the picture where the file says none.
func (s Schedule) options() sde.GridOptions {
	o := s.GridOptions
	if o.Tokens == 0 {
		o.Tokens = s.own
	}
	return o
}

func (s Sampler) schedule(steps int) (sde.Schedule, error) {
	grid, ok := sde.GridNamed(s.Schedule.Kind)
	if !ok {
		return sde.Schedule{}, fmt.Errorf("no schedule is named %q", s.Schedule.Kind)
	}
	return grid.Build(s.Schedule.options(), steps)
}

func (s Sampler) row(name string) (func(sde.Schedule, int) sde.Row, error) {
	solver, ok := sde.SolverNamed(name)
	if !ok {
		return nil, fmt.Errorf("no solver is named %q", name)
	}
	return solver.Build(s.SolverOptions), nil
}
