package trainer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Decided blames the decisions that were made. Each step of the sampler has its
// own loss over the samples that may be judged there, and the objective is the
// mean of these: a step that only one sample took weighs as much as the others.
//
// Invariant (test): in the first update after a roll every ratio is exactly 1.
type Decided struct {
	Rows      []sde.Row // of the sampler that rolled, by step
	Loss      func(loss.Terms) (loss.Result, error)
	Reference bool                      // whether Loss looks at the reference weights; otherwise KL is from what rolled
	Anchor    Weights                   // which weights these are; 0: Reference
	KLOver    func(row sde.Row) float64 // what a distance of means is divided by; nil: 2·KLDeviation², as published
}

// Blame is Objective's. Its metrics are those of the steps, one after another in
// the order of the sampler.
func (o Decided) Blame(p Policy, samples []Sample, advantages []float64) (Blame, error) {
	b := Blame{Metrics: map[string][]float64{}}
	steps := judged(samples)
	if len(steps) == 0 {
		return b, fmt.Errorf("no decision may be judged: the window holds none of the sampler's steps")
	}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		v, err := o.step(p, step, steps[step], samples, advantages, 1/float64(len(steps)))
		if err != nil {
			return b, fmt.Errorf("step %d: %w", step, err)
		}
		b.Loss += v.Loss / float64(len(steps))
		b.add("loss", v.Loss)
		b.add("kl", v.KL)
		for i, r := range v.Ratio {
			name := "ratio"
			if samples[steps[step][i].sample].Reused { // by weights of an earlier iteration: not 1 from the start
				name = "ratio_reused"
			}
			b.add(name, r)
		}
		for name, value := range v.Metrics {
			b.add(name, value)
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
func (o Decided) step(p Policy, step int, at []place, samples []Sample, advantages []float64, weight float64) (loss.Result, error) {
	if step < 0 || step >= len(o.Rows) {
		return loss.Result{}, fmt.Errorf("the sampler has %d steps", len(o.Rows))
	}
	if o.Rows[step].Density == sde.None {
		return loss.Result{}, fmt.Errorf("the sampler draws nothing here, so its choice has no log-probability; train the steps of a window that draw")
	}
	if o.Rows[step].Lags() > 0 {
		return loss.Result{}, fmt.Errorf("the sampler looks back at outputs before this step, which are not kept; train a window of one-step rows")
	}
	points := make([]Point, len(at))
	for i, a := range at {
		s := samples[a.sample]
		points[i] = Point{Key: s.Key, State: s.Decisions.State[a.decision], Time: s.Decisions.Time[a.decision]}
	}
	answers, err := p.Eval(Current, points)
	if err != nil {
		return loss.Result{}, err
	}
	row := o.Rows[step]
	judge := func(outputs [][]float64) []judgement {
		all := make([]judgement, len(at))
		for i, a := range at {
			all[i] = judgeChoice(row, points[i].State, outputs[i], samples[a.sample].Decisions.Choice[a.decision])
		}
		return all
	}
	now := judge(answers.Outputs)
	t := o.terms(row, at, samples, advantages)
	for _, j := range now {
		t.LogProb, t.Mean = append(t.LogProb, j.logProb), append(t.Mean, j.mean)
	}
	t.MeanRef, t.LogProbRef = t.MeanOld, t.Old
	if o.Reference {
		reference, err := p.Eval(anchor(o.Anchor), points)
		if err != nil {
			return loss.Result{}, err
		}
		t.MeanRef, t.LogProbRef = nil, nil
		for _, j := range judge(reference.Outputs) {
			t.MeanRef, t.LogProbRef = append(t.MeanRef, j.mean), append(t.LogProbRef, j.logProb)
		}
	}
	v, err := o.Loss(t)
	if err != nil {
		return v, err
	}
	return v, answers.Back(atOutputs(v, now, weight))
}

// anchor is which weights are the reference.
func anchor(w Weights) Weights {
	if w == Current {
		return Reference
	}
	return w
}

// terms are what a loss is told about decisions, as far as it was known when they
// were made.
func (o Decided) terms(row sde.Row, at []place, samples []Sample, advantages []float64) loss.Terms {
	var t loss.Terms
	over := 2 * row.KLDeviation * row.KLDeviation
	if o.KLOver != nil {
		over = o.KLOver(row)
	}
	for _, a := range at {
		d := samples[a.sample].Decisions
		t.Old = append(t.Old, d.LogProb[a.decision])
		t.MeanOld = append(t.MeanOld, d.Mean[a.decision])
		t.Advantage = append(t.Advantage, advantages[a.sample])
		t.KLDenominator = append(t.KLDenominator, over)
		t.Std = append(t.Std, row.KLDeviation)
		t.Deviation = append(t.Deviation, row.Noise)
		t.Sigma, t.SigmaBelow = append(t.Sigma, row.From), append(t.SigmaBelow, row.To) // below is read at 1 only
		t.SqrtDt = append(t.SqrtDt, math.Sqrt(math.Abs(row.From-row.To)))
	}
	return t
}

// A judgement is what one choice was worth under an output.
type judgement struct {
	logProb           float64
	mean, grad, slope []float64 // grad is the log-probability's at the mean, slope the mean's at the output
}

// LogProb is the log-probability of a choice in a state, under an output of the network.
func LogProb(row sde.Row, state, output, choice []float64) float64 {
	return judgeChoice(row, state, output, choice).logProb
}

func judgeChoice(row sde.Row, state, output, choice []float64) judgement {
	var h sde.History
	h.Push(state, output)
	mean := row.Mean(&h)
	return judgement{row.LogProb(mean, choice), mean, row.LogProbGrad(mean, choice), row.Slope(&h)}
}

// atOutputs carries a loss's gradients from log-probabilities and means to the
// network's outputs.
func atOutputs(v loss.Result, now []judgement, weight float64) [][]float64 {
	grads := make([][]float64, len(now))
	for i, j := range now {
		grads[i] = make([]float64, len(j.mean))
		for e := range grads[i] {
			g := 0.0
			if v.GradLogProb != nil {
				g += v.GradLogProb[i] * j.grad[e]
			}
			if v.GradMean != nil {
				g += v.GradMean[i][e]
			}
			grads[i][e] = weight * g * j.slope[e]
		}
	}
	return grads
}
