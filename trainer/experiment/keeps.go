package experiment

import "github.com/darkroom-rl/darkroom/trainer/diagnosis"

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
