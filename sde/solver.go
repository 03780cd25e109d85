package sde

import "slices"

// A Solver is a way to take a step. Its value is below its formula. Files, lists, pages, checks and plans read this
// value. Solvers lists all of them.
type Solver struct {
	Name    string
	Card    string   // a sentence: its kind and its source
	Paper   string   // whose it is
	Formula string   // the formula of a step, in a line
	Cases   []string // recorded operations of published code that hold it

	Stochastic  bool // draws noise
	Ancestral   bool // as much as its schedule says, whatever the noise level is
	Density     bool // a step that drew has a log-probability
	VP          bool // for variance-preserving schedules; the others are for flows
	History     bool // looks at steps before the last
	Whole       bool // must take every step of a trajectory
	Calls       int  // of the network a step, each with a time of its own in the schedule (Grid.Calls); 0: 1
	LeavesNoise bool // in the picture, where the last step draws
	UnitScale   bool // loss.noise_scale knows the weight of its steps

	Kept    func(Row) float64                                             // the part of the gradient that a step keeps; nil: not known
	Options any                                                           // a struct of the option structs that it reads; nil: the noise level alone
	Check   func(o SolverOptions, report func(key, problem, hint string)) // mistakes of its options
	Build   func(o SolverOptions) func(s Schedule, step int) Row
}

// SolverOptions are the options of all solvers, as one table of a file has them.
type SolverOptions struct {
	Noise float64 `toml:"noise" range:"[0,10]" doc:"eta, the solver's noise level"`
	FlowSDEOptions
	DanceOptions
	VPSolverOptions
	DDIMOptions
}

// DefaultSolverOptions are Flow-GRPO's.
func DefaultSolverOptions() SolverOptions {
	return SolverOptions{Noise: 0.7, DanceOptions: DanceOptions{Density: "gaussian"}, VPSolverOptions: VPSolverOptions{Prediction: "epsilon"}}
}

// Solvers are all solvers.
func Solvers() []Solver {
	return []Solver{
		EulerSolver,
		HeunSolver,
		FlowSDESolver,
		FlowWanSolver,
		DanceSolver,
		CPSSolver,
		FlowDDIMSolver,
		RenoiseSolver,
		DPM2MSolver,
		DPM2MHeunSolver,
		DPM3MSolver,
		DPM2MSDESolver,
		DPM2SSolver,
		UniPCSolver,
		DDIMSolver,
		DDPMSolver,
	}
}

// fixed is the step of a solver without options.
func fixed(row func(s Schedule, step int) Row) func(SolverOptions) func(Schedule, int) Row {
	return func(SolverOptions) func(Schedule, int) Row { return row }
}

// Step is the row of a solver at a noise level, with the other options as they are by default.
func (s Solver) Step(noise float64, prediction Prediction) func(t Schedule, step int) Row {
	o := DefaultSolverOptions()
	o.Noise, o.Prediction = noise, string(prediction)
	return s.Build(o)
}

// Draws reports whether a step draws at a noise level.
func (s Solver) Draws(noise float64) bool { return s.Stochastic && (noise > 0 || s.Ancestral) }

// SolverNamed is the solver of a name.
func SolverNamed(name string) (Solver, bool) {
	all := Solvers()
	i := slices.IndexFunc(all, func(s Solver) bool { return s.Name == name })
	if i < 0 {
		return Solver{}, false
	}
	return all[i], true
}
