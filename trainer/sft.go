package trainer

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// SFT makes the text of episodes likelier: supervised fine-tuning of conversations, whose tokens
// were written by somebody else. Advantages are not read.
//
// Invariant (test): the gradient is that of the cross entropy of all trained tokens of an update,
// however many passes they take.
type SFT struct {
	Aggregate loss.Aggregate
	Undecided bool // tokens weigh by p(1-p) of the policy
}

// Evaluate implements Objective.
func (o SFT) Evaluate(p Policy, samples []Sample, _ []float64) (LossResult, error) {
	var b LossResult
	points := make([]Point, len(samples))
	for i, s := range samples {
		if s.Item.Episode == nil {
			return b, fmt.Errorf("sample %d of prompt %d is no episode: sft of tokens learns from conversations", s.Key.Sample, s.Key.Prompt)
		}
		points[i] = Point{Key: s.Key, Episode: s.Item.Episode}
	}
	forward, err := p.Eval(Current, points)
	if err != nil {
		return b, err
	}
	n := newSheet(samples)
	logProb := n.spread(samples, func(s, k int) float64 { return forward.Outputs[s][k] })
	mask := n.spread(samples, func(int, int) float64 { return 1 })
	value, grad, err := loss.Likelihood(logProb, mask, o.Aggregate, o.Undecided)
	if err != nil {
		return b, err
	}
	b.Loss = value
	grads := make([][]float64, len(samples))
	for i, s := range samples {
		grads[i] = make([]float64, len(forward.Outputs[i]))
		for k, step := range s.Decisions.Step {
			grads[i][k] = grad[i][step-s.Item.Episode.Begins()]
			b.add("nll", -forward.Outputs[i][k])
			b.add("token_probability", portable.Exp(forward.Outputs[i][k]))
		}
	}
	return b, forward.Back(grads)
}
