package trainer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// PolicyGradient blames the decisions that were made. Each step of the sampler has its
// own loss over the samples that may be judged there, and the objective is the
// mean of these: a step that only one sample took weighs as much as the others, or,
// with Even, as much as it has decisions.
//
// Decisions of one prompt that were made at equal states, as those of a
// group that starts together or of branches that part, are one question to the network.
//
// Invariants (tests): in the first update after a roll every ratio is exactly 1; the
// gradient is the same where every decision is a question of its own.
type PolicyGradient struct {
	Even      bool                  // decisions weigh the same, not steps (BranchGRPO)
	Rows      []sde.Row             // of the sampler that rolled, by step
	RowsOf    func(k Key) []sde.Row // where they depend on the sample: as many, which draw in the same steps; nil: Rows
	Loss      func(loss.Terms) (loss.Result, error)
	Reference bool                      // whether Loss uses the reference weights; otherwise KL is from the sampling weights
	Anchor    Weights                   // which weights these are; 0: Reference
	Weigh     func(row sde.Row) float64 // the weight of decisions by their step, over the mean of all that are judged; nil: the same
	KLOver    func(row sde.Row) float64 // the divisor of a distance of means; nil: 2·KLDeviation², as published
}

// Evaluate implements Objective. Its metrics are those of the steps, one after another in
// the order of the sampler.
func (o PolicyGradient) Evaluate(p Policy, samples []Sample, advantages []float64) (LossResult, error) {
	b := LossResult{Metrics: map[string][]float64{}}
	steps := judged(samples)
	if len(steps) == 0 {
		if len(samples) > 0 && samples[0].Decisions.Advantage != nil { // pruned, or others are blamed
			b.Idle = true
			return b, nil
		}
		return b, fmt.Errorf("no decision may be judged: the window holds none of the sampler's steps")
	}
	all := 0
	for _, at := range steps {
		all += len(at)
	}
	o.level(steps, samples)
	asked := map[int]asking{}
	for step, at := range steps {
		points, of := questions(at, samples)
		asked[step] = asking{points, of}
	}
	if err := announce(p, func() ([]Question, error) { return o.questions(asked), nil }); err != nil {
		return b, err
	}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		weight := 1 / float64(len(steps))
		if o.Even {
			weight = float64(len(steps[step])) / float64(all)
		}
		v, err := o.step(p, step, steps[step], asked[step], samples, advantages, weight)
		if err != nil {
			return b, fmt.Errorf("step %d: %w", step, err)
		}
		b.Loss += float64(v.Loss * weight)
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

// level makes the weights of all decisions 1 on average.
func (o *PolicyGradient) level(steps map[int][]place, samples []Sample) {
	if o.Weigh == nil {
		return
	}
	weigh, sum, n := o.Weigh, 0.0, 0.0
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		for _, a := range steps[step] {
			sum, n = sum+weigh(o.Row(samples[a.sample].Key, step)), n+1
		}
	}
	o.Weigh = func(row sde.Row) float64 { return weigh(row) * n / sum }
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
func (o PolicyGradient) step(p Policy, step int, at []place, q asking, samples []Sample, advantages []float64, weight float64) (loss.Result, error) {
	if step < 0 || step >= len(o.Rows) {
		return loss.Result{}, fmt.Errorf("the sampler has %d steps", len(o.Rows))
	}
	if o.Rows[step].Density == sde.None {
		return loss.Result{}, fmt.Errorf("the sampler draws nothing here, so its choice has no log-probability; train the steps of a window that draw")
	}
	if o.Rows[step].Lags() > 0 {
		return loss.Result{}, fmt.Errorf("the sampler looks back at outputs before this step, which are not kept; train a window of one-step rows")
	}
	points, of := q.points, q.of
	forward, err := p.Eval(Current, points)
	if err != nil {
		return loss.Result{}, err
	}
	judge := func(outputs [][]float64) []judgement {
		all := make([]judgement, len(at))
		for i, a := range at {
			all[i] = judgeAction(o.Row(samples[a.sample].Key, step), points[of[i]].State, outputs[of[i]], samples[a.sample].Decisions.Action[a.decision])
		}
		return all
	}
	now := judge(forward.Outputs)
	t := o.terms(step, at, samples, advantages)
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
	return v, forward.Back(atOutputs(v, now, of, weight))
}

// asking is the question of a step: the network's inputs, and the input of each decision.
type asking struct {
	points []Point
	of     []int
}

// questions are those of all steps, in their order.
func (o PolicyGradient) questions(asked map[int]asking) (all []Question) {
	for _, step := range slices.Sorted(maps.Keys(asked)) {
		all = append(all, Question{Current, asked[step].points})
		if o.Reference {
			all = append(all, Question{anchor(o.Anchor), asked[step].points})
		}
	}
	return all
}

// questions are the network's inputs for judging decisions, and the input of each: those of one prompt at equal
// states are one.
func questions(at []place, samples []Sample) (points []Point, of []int) {
	type mark struct { // common to equal states, and hardly ever to others
		prompt            int
		time, first, last float64
	}
	asked := map[mark][]int{}
	for _, a := range at {
		s := samples[a.sample]
		p := Point{Key: s.Key, State: s.Decisions.State[a.decision], Time: s.Decisions.Time[a.decision]}
		m := mark{prompt: s.Key.Prompt, time: p.Time}
		if n := len(p.State); n > 0 {
			m.first, m.last = p.State[0], p.State[n-1]
		}
		same := slices.IndexFunc(asked[m], func(n int) bool { return slices.Equal(points[n].State, p.State) })
		if same < 0 {
			asked[m], same = append(asked[m], len(points)), len(asked[m])
			points = append(points, p)
		}
		of = append(of, asked[m][same])
	}
	return points, of
}

// anchor is which weights are the reference.
func anchor(w Weights) Weights {
	if w == Current {
		return Reference
	}
	return w
}

// Row is the row that a sample's step was taken by.
func (o PolicyGradient) Row(k Key, step int) sde.Row { return rowsOf(o.Rows, o.RowsOf, k)[step] }

// terms are a loss's inputs about decisions, as far as they were known when these were made.
func (o PolicyGradient) terms(step int, at []place, samples []Sample, advantages []float64) loss.Terms {
	var t loss.Terms
	for _, a := range at {
		row, d := o.Row(samples[a.sample].Key, step), samples[a.sample].Decisions
		over := 2 * row.KLDeviation * row.KLDeviation
		if o.KLOver != nil {
			over = o.KLOver(row)
		}
		if o.Weigh != nil {
			t.Weight = append(t.Weight, o.Weigh(row))
		}
		t.Old = append(t.Old, d.LogProb[a.decision])
		t.MeanOld = append(t.MeanOld, d.Mean[a.decision])
		t.Advantage = append(t.Advantage, worth(d, a.decision, advantages[a.sample]))
		t.KLDenominator = append(t.KLDenominator, over)
		t.Std = append(t.Std, row.KLDeviation)
		t.Deviation = append(t.Deviation, row.Noise)
		t.Sigma, t.SigmaBelow = append(t.Sigma, row.From), append(t.SigmaBelow, row.To) // below is read at 1 only
		t.SqrtDt = append(t.SqrtDt, math.Sqrt(math.Abs(row.From-row.To)))
	}
	return t
}

// worth is a decision's advantage: its own, or its sample's.
func worth(d Decisions, decision int, sample float64) float64 {
	if d.Advantage == nil {
		return sample
	}
	return d.Advantage[decision]
}

// A judgement is the worth of one action under an output.
type judgement struct {
	logProb           float64
	mean, grad, slope []float64 // grad is the log-probability's at the mean, slope the mean's at the output
}

// LogProb is the log-probability of an action in a state, under an output of the network.
func LogProb(row sde.Row, state, output, action []float64) float64 {
	return judgeAction(row, state, output, action).logProb
}

func judgeAction(row sde.Row, state, output, action []float64) judgement {
	var h sde.History
	h.Push(state, output)
	mean := row.Mean(&h)
	return judgement{row.LogProb(mean, action), mean, row.LogProbGrad(mean, action), row.Slope(&h)}
}

// atOutputs carries a loss's gradients from log-probabilities and means to the
// network's outputs; of says which is a decision's.
func atOutputs(v loss.Result, now []judgement, of []int, weight float64) [][]float64 {
	grads := make([][]float64, slices.Max(of)+1)
	for i, j := range now {
		if grads[of[i]] == nil {
			grads[of[i]] = make([]float64, len(j.mean))
		}
		for e := range j.mean {
			g := 0.0
			if v.GradLogProb != nil {
				g += float64(v.GradLogProb[i] * j.grad[e])
			}
			if v.GradMean != nil {
				g += v.GradMean[i][e]
			}
			grads[of[i]][e] += float64(weight * g * j.slope[e])
		}
	}
	return grads
}
