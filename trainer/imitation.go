package trainer

import "fmt"

// Imitation learns from rollouts and, in the same update, from answers that somebody wrote:
//
//	(1 - Share)·loss of Own + Share·loss of Written (CHORD; Zhang et al., 2025)
//
// Invariants (tests): the gradient is that sum of both objectives' gradients; with a share of 0 nothing is read, and
// the gradient is Own's, bit for bit; without samples it is Share times Written's.
type Imitation struct {
	Own     Objective
	Written Objective
	Share   float64
	Lessons func() ([]Sample, error) // written examples
}

// Evaluate implements Objective. Metrics are those of both, and the share.
func (o Imitation) Evaluate(p Policy, samples []Sample, advantages []float64) (LossResult, error) {
	switch {
	case o.Share == 0 && len(samples) == 0:
		return LossResult{Idle: true}, nil
	case o.Share == 0:
		return o.Own.Evaluate(p, samples, advantages)
	}
	var b LossResult
	if len(samples) > 0 {
		var err error
		if b, err = o.Own.Evaluate(weighed{p, 1 - o.Share}, samples, advantages); err != nil {
			return b, err
		}
	}
	lessons, err := o.Lessons()
	if err != nil {
		return b, fmt.Errorf("answers to imitate: %w", err)
	}
	written, err := o.Written.Evaluate(weighed{p, o.Share}, lessons, nil)
	if err != nil {
		return b, fmt.Errorf("answers to imitate: %w", err)
	}
	b.Idle = false
	b.Loss = float64((1-o.Share)*b.Loss) + float64(o.Share*written.Loss)
	for name, values := range written.Metrics {
		b.add(name, values...)
	}
	b.add("imitated", o.Share)
	return b, nil
}

// weighed is a policy whose gradients count in part.
type weighed struct {
	Policy
	by float64
}

// Eval is the policy's, and Back takes the part.
func (w weighed) Eval(of Weights, at []Point) (Forward, error) {
	a, err := w.Policy.Eval(of, at)
	if back := a.Back; back != nil {
		a.Back = func(grads [][]float64) error {
			for _, row := range grads {
				for e := range row {
					row[e] *= w.by
				}
			}
			return back(grads)
		}
	}
	return a, err
}
