package trainer

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Preference learns from written answers that somebody judged (loss.Preference): pairs of a better and a worse one, or
// answers that are good or bad. Advantages are not read.
//
// Invariant (test): the gradient is the same at every trained token of an answer, and 0 elsewhere.
type Preference struct {
	Loss   loss.Preference
	Good   func(s Sample) bool             // nil: samples come in pairs, the better one first
	Others func(samples []Sample) []Sample // answers to other questions, for Good
	Shift  *loss.Shift                     // the mean until now
	Anchor Weights                         // which weights are the reference; 0: Reference
}

// Evaluate implements Objective.
func (o Preference) Evaluate(p Policy, samples []Sample, _ []float64) (LossResult, error) {
	var b LossResult
	others, err := o.others(p, samples)
	if err != nil {
		return b, err
	}
	a, forward, err := o.answered(p, samples)
	if err != nil {
		return b, err
	}
	var r loss.PreferenceResult
	if o.Good == nil {
		pairs, err := pairsOf(samples)
		if err != nil {
			return b, err
		}
		if r, err = o.Loss.Pairs(a, pairs, o.Shift); err != nil {
			return b, err
		}
		b.add("nll", r.NLL)
	} else {
		good := make([]bool, len(samples))
		for i, s := range samples {
			good[i] = o.Good(s)
		}
		r = o.Loss.Good(a, good, others)
		b.add("distance", r.Distance)
	}
	b.Loss = r.Loss
	b.add("accuracy", r.Accuracy)
	b.add("margin", r.Margin)
	b.add("chosen", r.Better)
	b.add("rejected", r.Worse)
	grads := make([][]float64, len(samples))
	for i := range grads {
		grads[i] = make([]float64, len(forward.Outputs[i]))
		for k := range grads[i] {
			grads[i][k] = r.Grad[i]
		}
	}
	return b, forward.Back(grads)
}

// others are the log-probabilities of answers to other questions.
func (o Preference) others(p Policy, samples []Sample) (loss.Answered, error) {
	if o.Good == nil || !o.Loss.Mismatched {
		return loss.Answered{}, nil
	}
	all := o.Others(samples)
	if len(all) == 0 {
		return loss.Answered{}, nil
	}
	a, _, err := o.answered(p, all)
	return a, err
}

// answered are samples' log-probabilities, by the current weights and by the reference.
func (o Preference) answered(p Policy, samples []Sample) (a loss.Answered, forward Forward, err error) {
	points := make([]Point, len(samples))
	for i, s := range samples {
		if s.Item.Episode == nil {
			return a, forward, fmt.Errorf("sample %d of prompt %d is no episode: judged answers are conversations", s.Key.Sample, s.Key.Prompt)
		}
		points[i] = Point{Key: s.Key, Episode: s.Item.Episode}
	}
	err = announce(p, func() ([]Question, error) {
		return []Question{{Current, points}, {anchor(o.Anchor), points}}, nil
	})
	if err != nil {
		return a, forward, err
	}
	if forward, err = p.Eval(Current, points); err != nil {
		return a, forward, err
	}
	reference, err := p.Eval(anchor(o.Anchor), points)
	if err != nil {
		return a, forward, err
	}
	for i := range samples {
		a.Own, a.Reference = append(a.Own, total(forward.Outputs[i])), append(a.Reference, total(reference.Outputs[i]))
		a.Tokens = append(a.Tokens, len(forward.Outputs[i]))
	}
	return a, forward, nil
}

// pairsOf are the places of pairs.
func pairsOf(samples []Sample) (pairs [][2]int, err error) {
	for _, g := range Groups(samples) {
		if len(g) != 2 || samples[g[0]].Key.Sample != 0 {
			return nil, fmt.Errorf("prompt %d has %d answers: a better and a worse one were expected", samples[g[0]].Key.Prompt, len(g))
		}
		pairs = append(pairs, [2]int{g[0], g[1]})
	}
	return pairs, nil
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
