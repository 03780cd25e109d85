package experiment

import (
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// A Turn is how an iteration samples.
type Turn struct {
	*Experiment        // with what the iteration's stage says
	Stage       string // its name; "" without stages
	Number      int    // of the stage
	First       int    // its first iteration
	Iteration   int    // of the stage, from 0
	Window      []int  // where the window stands
	Trained     []int  // steps whose choices are judged
	Schedule    sde.Schedule
	Rows        []sde.Row
	Evaluates   bool // held-out samples are made, by Evaluation's rows
	Given       int  // tokens of a solution that some answers begin with ([episode.guided]), which the run's scores decide
}

// Turn is iteration i's.
func (e *Experiment) Turn(i int) (Turn, error) {
	t := Turn{Experiment: e}
	first := 0
	for n, s := range e.Stages {
		if i < first+s.Iterations || n == len(e.Stages)-1 {
			t.Experiment, t.Stage, t.Number, t.First = e.at(s), s.Name, n, first
			break
		}
		first += s.Iterations
	}
	t.Iteration = i - first
	if e.Episode != nil {
		return t, nil // tokens are no steps
	}
	t.Window = t.window(i)
	t.Trained = t.trained(t.Window)
	var err error
	t.Schedule, t.Rows, err = t.Sampler.rows(t.drawn(t.Window))
	return t, err
}

// Quiet are the rows of a sampler that draws nowhere.
func (t Turn) Quiet() ([]sde.Row, error) {
	s := t.Sampler
	s.Solver = s.Outside
	_, rows, err := s.rows(nil)
	return rows, err
}

// Weigh is what decisions weigh by their step; nil: the same.
func (t Turn) Weigh() func(row sde.Row) float64 {
	if !t.Loss.Rectify {
		return nil
	}
	solver, _ := sde.SolverNamed(t.Sampler.Solver)
	return solver.Kept
}

// Noising is the forward process of a ladder, by the share of its training steps; nil of a flow.
func (t Turn) Noising() (func(share float64) sde.Noising, error) {
	if t.Schedule.Alpha == nil {
		return nil, nil
	}
	return t.Sampler.Schedule.VP().Noising(sde.Prediction(t.Sampler.Prediction))
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

// Silent reports a turn whose objective judges decisions, and whose window has none.
func (t Turn) Silent() bool { return len(t.Trained) == 0 && t.Episode == nil && !t.Noised() }

// BySample reports whether the advantages of samples decide what is learned: the objective reads some, and
// tokens have none of their own.
func (t Turn) BySample() bool {
	return t.Kind().Has(loss.Advantages) && (t.Episode == nil || t.Advantage.Credit.Spreads())
}

// Keeps is what each step of the sampler would keep of the gradient if it drew,
// and which of them a stage's windows reach.
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
