package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
)

// Place plans the steps of a solver for a shape: a row and a timestep each. Without a solver they are the pipeline's
// own. A solver that draws takes every step but the last, so that no noise is left.
func (p *Pipeline) Place(solver *sde.Solver, noise float64, steps int, at Shape) (rows []sde.Row, times []float64, err error) {
	schedule, err := p.Schedule(steps, at)
	if err != nil {
		return nil, nil, err
	}
	own, err := p.Rows(schedule, 0)
	if err != nil || solver == nil {
		return own, schedule.Timesteps, err
	}
	if solver.VP == p.Flow() {
		return nil, nil, Unfit{solver.Name, p.Flow()}
	}
	if solver.Calls > 1 {
		schedule = sde.HeunFP32(p.Shift(at), steps)
	}
	row := solver.Step(noise, p.Prediction())
	for i := range schedule.Steps() {
		rows = append(rows, row(schedule, i))
	}
	if end := &rows[len(rows)-1]; end.Stochastic() {
		*end = own[len(own)-1]
	}
	return rows, schedule.Timesteps, nil
}

// Unfit is the error of a solver of flows for a ladder, or the other way round.
type Unfit struct {
	Solver string
	Flow   bool // whether the model is a flow
}

func (u Unfit) Error() string {
	kind := map[bool]string{true: "a flow", false: "a variance-preserving ladder"}
	return fmt.Sprintf("%s is for %s, and this model is %s", u.Solver, kind[!u.Flow], kind[u.Flow])
}
