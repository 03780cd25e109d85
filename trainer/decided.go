package trainer

import (
	"fmt"
	"maps"
	"slices"
)

// A Transition is what a sampler makes of a network's output at one step: where
// the next state may lie, and how likely a given one was. Its mean depends on the
// output linearly and element by element, as that of every row of coefficients.
type Transition interface {
	Judge(state, output, choice []float64) Judgement
}

// A Judgement is what one choice was worth under the output.
type Judgement struct {
	LogProb   float64
	Mean      []float64
	Deviation float64   // as the divergence of two means is divided by it
	DLogProb  []float64 // the log-probability's gradient at the mean
	Gain      float64   // the mean's derivative by the output
}

// Decided blames the decisions that were made. Each step of the sampler has its
// own loss over the samples that may be judged there, and the objective is the
// mean of these: a step that only one sample took weighs as much as the others.
//
// Invariant (test): in the first update after a roll every ratio is exactly 1.
type Decided struct {
	Transition func(step int) Transition
	Loss       func(Choices) (Verdict, error)
	Reference  bool // whether Loss looks at the means of the reference weights
}

// Choices is one step's decisions, one a sample.
type Choices struct {
	LogProb, OldLogProb, Advantages, Deviation []float64
	Mean, ReferenceMean                        [][]float64
}

// A Verdict is a loss, and its gradients at what it was given.
type Verdict struct {
	Loss        float64
	GradLogProb []float64   // nil: none
	GradMean    [][]float64 // nil: none
	GradOutput  [][]float64 // of a loss that looks at outputs
	Metrics     map[string][]float64
}

// Blame is Objective's. Its metrics are those of the steps, one after another in
// the order of the sampler.
func (o Decided) Blame(p Policy, samples []Sample, advantages []float64) (Blame, error) {
	b := Blame{Metrics: map[string][]float64{}}
	steps := judged(samples)
	if len(steps) == 0 {
		return b, fmt.Errorf("no decision may be judged: no step of the sampler is both random and trained")
	}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		v, err := o.step(p, step, steps[step], samples, advantages, 1/float64(len(steps)))
		if err != nil {
			return b, fmt.Errorf("step %d: %w", step, err)
		}
		b.Loss += v.Loss / float64(len(steps))
		b.Metrics["step_loss"] = append(b.Metrics["step_loss"], v.Loss)
		for name, values := range v.Metrics {
			b.Metrics[name] = append(b.Metrics[name], values...)
		}
	}
	return b, nil
}

// judged lists for each step which decisions may be judged there.
func judged(samples []Sample) map[int][]place {
	steps := map[int][]place{}
	for i, s := range samples {
		for k, trained := range s.Decisions.Trained {
			if step := s.Decisions.Step[k]; trained {
				steps[step] = append(steps[step], place{i, k})
			}
		}
	}
	return steps
}

// A place is a decision of a sample.
type place struct{ sample, decision int }

// step is the loss of one step. Its gradients go back to the policy times weight.
func (o Decided) step(p Policy, step int, at []place, samples []Sample, advantages []float64, weight float64) (Verdict, error) {
	points := make([]Point, len(at))
	for i, a := range at {
		s := samples[a.sample]
		points[i] = Point{s.Key, s.Decisions.State[a.decision], s.Decisions.Time[a.decision]}
	}
	answers, err := p.Eval(Current, points)
	if err != nil {
		return Verdict{}, err
	}
	transition := o.Transition(step)
	judge := func(outputs [][]float64) []Judgement {
		all := make([]Judgement, len(at))
		for i, a := range at {
			d := samples[a.sample].Decisions
			all[i] = transition.Judge(d.State[a.decision], outputs[i], d.Choice[a.decision])
		}
		return all
	}
	now := judge(answers.Outputs)
	c := Choices{}
	for i, a := range at {
		c.LogProb = append(c.LogProb, now[i].LogProb)
		c.OldLogProb = append(c.OldLogProb, samples[a.sample].Decisions.LogProb[a.decision])
		c.Advantages = append(c.Advantages, advantages[a.sample])
		c.Deviation = append(c.Deviation, now[i].Deviation)
		c.Mean = append(c.Mean, now[i].Mean)
	}
	if o.Reference {
		reference, err := p.Eval(Reference, points)
		if err != nil {
			return Verdict{}, err
		}
		for _, j := range judge(reference.Outputs) {
			c.ReferenceMean = append(c.ReferenceMean, j.Mean)
		}
	}
	v, err := o.Loss(c)
	if err != nil {
		return v, err
	}
	return v, answers.Back(atOutputs(v, now, weight))
}

// atOutputs carries a loss's gradients from log-probabilities and means to the
// network's outputs.
func atOutputs(v Verdict, now []Judgement, weight float64) [][]float64 {
	grads := make([][]float64, len(now))
	for i, j := range now {
		grads[i] = make([]float64, len(j.Mean))
		for e := range grads[i] {
			g := 0.0
			if v.GradLogProb != nil {
				g += v.GradLogProb[i] * j.DLogProb[e]
			}
			if v.GradMean != nil {
				g += v.GradMean[i][e]
			}
			grads[i][e] = weight * g * j.Gain
		}
	}
	return grads
}
