package experiment

import (
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Settings are one iteration's: the experiment in its stage, with its window, schedule and rows.
type Settings struct {
	*Experiment        // with the keys of the iteration's stage
	Stage       string // its name; "" without stages
	Number      int    // of the stage
	First       int    // its first iteration
	Iteration   int    // of the stage, from 0
	Window      []int  // the window's steps
	Trained     []int  // steps whose actions are trained
	Schedule    sde.Schedule
	Rows        []sde.Row
	Evaluates   bool // held-out samples are made, by Evaluation's rows
	Given       int  // tokens of a solution that some answers begin with ([episode.guided]), which the run's scores decide
}

// Iteration returns the settings of iteration i.
func (e *Experiment) Iteration(i int) (Settings, error) {
	it := Settings{Experiment: e}
	first := 0
	for n, s := range e.Stages {
		if i < first+s.Iterations || n == len(e.Stages)-1 {
			it.Experiment, it.Stage, it.Number, it.First = e.at(s), s.Name, n, first
			break
		}
		first += s.Iterations
	}
	it.Iteration = i - first
	if e.Episode != nil {
		return it, nil // tokens have no steps
	}
	it.Window = it.window(i)
	it.Trained = it.trained(it.Window)
	var err error
	it.Schedule, it.Rows, err = it.Sampler.rows(it.drawn(it.Window))
	return it, err
}

// Deterministic returns the rows of the sampler without noise.
func (it Settings) Deterministic() ([]sde.Row, error) {
	s := it.Sampler
	s.Solver = s.Outside
	_, rows, err := s.rows(nil)
	return rows, err
}

// Weigh is the weight of decisions by their step; nil: the same.
func (it Settings) Weigh() func(row sde.Row) float64 {
	if !it.Loss.Rectify {
		return nil
	}
	solver, _ := sde.SolverNamed(it.Sampler.Solver)
	return solver.Kept
}

// Noising is the forward process of a ladder, by the share of its training steps; nil of a flow.
func (it Settings) Noising() (func(share float64) sde.Noising, error) {
	if it.Schedule.Alpha == nil {
		return nil, nil
	}
	return it.Sampler.Schedule.VP().Noising(sde.Prediction(it.Sampler.Prediction))
}

// Evaluation is how held-out samples are made: by one deterministic solver.
func (e *Experiment) Evaluation() (sde.Schedule, []sde.Row, error) {
	s := e.Sampler
	schedule, err := s.schedule(s.EvalSteps)
	if err != nil {
		return schedule, nil, err
	}
	row, err := s.row(s.EvalSolver)
	if err != nil {
		return schedule, nil, err
	}
	schedule, rows := sde.Plan{Inside: row, Outside: row}.Rows(schedule)
	return schedule, rows, nil
}

// Noised reports whether the objective looks at final samples alone.
func (e *Experiment) Noised() bool { return e.Kind().OfFinished() }

// NothingTrained reports an objective over steps whose window has none.
func (it Settings) NothingTrained() bool {
	return len(it.Trained) == 0 && it.Episode == nil && !it.Noised()
}

// BySample reports whether training uses the advantages of samples: the objective reads some, and tokens have none of
// their own.
func (it Settings) BySample() bool {
	return it.Kind().Has(loss.Advantages) && (it.Episode == nil || it.Advantage.Credit.Spreads())
}

// Keeps is the share of the gradient that each step of the sampler would keep if it drew, and which of them a stage's
// windows reach.
func (e *Experiment) Keeps() ([]diagnosis.Keep, error) {
	every := make([]int, e.Sampler.Steps)
	for i := range every {
		every[i] = i
	}
	_, rows, err := e.Sampler.rows(every)
	if err != nil {
		return nil, err
	}
	p, err := e.Plan()
	if err != nil {
		return nil, err
	}
	var trained []int
	for step, times := range p.Stages[0].Coverage {
		if times > 0 {
			trained = append(trained, step)
		}
	}
	return diagnosis.KeepsOf(diagnosis.Keeps(rows), trained), nil
}
