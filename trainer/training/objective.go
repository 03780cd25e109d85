package training

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// unit is what networks are told at time 1.
const unit = 1000

// verdict is what an objective over noised samples says.
type verdict = func(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error)

// objective is what an iteration is blamed by.
func (t *Training) objective(turn experiment.Turn) (trainer.Objective, error) {
	l := turn.Loss
	kl := l.KL.Weight > 0
	var anchor trainer.Weights
	switch {
	case l.KL.Reference == "ema":
		anchor = average(turn.Experiment)
	case l.KL.Reference == "old" && turn.Noised():
		anchor = trainer.Old // of decisions it is known what they had
	}
	noised := func(old, reference bool, of verdict) (trainer.Objective, error) {
		return trainer.Noised{Draw: t.draw(turn), Paired: l.Objective == "dpo", Times: l.Times, Unit: unit, Old: old, Reference: reference, Anchor: anchor, Average: l.Objective == "awm" && l.KL.EMAWeight > 0, Loss: of}, nil
	}
	if turn.Episode != nil {
		return spoken(t, turn, anchor), nil
	}
	switch l.Objective {
	case "clip", "guard", "dppo":
		rows, err := t.rows(turn)
		if err != nil {
			return nil, err
		}
		return trainer.Decided{Even: turn.Advantage.Estimator == "tree", Rows: rows, Loss: l.Transitions(), Reference: kl && l.KL.Reference != "old", Anchor: anchor, KLOver: l.KL.Denominator}, nil
	case "nft":
		return noised(true, kl, implicit(l))
	case "awm":
		return noised(true, kl, matching(l))
	case "dpo":
		return noised(false, true, pairs(l))
	case "rwr", "sft":
		return noised(false, false, weighted)
	case "dgpo":
		return noised(false, true, preferred(l, turn.Rollout.Group))
	case "reward-gradient":
		return t.followed(turn), nil
	}
	return nil, fmt.Errorf("objective %q cannot be trained with yet: %s can", l.Objective, "clip, guard, dppo, nft, awm, dpo, rwr, sft, dgpo and reward-gradient")
}

// implicit is DiffusionNFT.
func implicit(l experiment.Loss) verdict {
	o, probability := l.NFT()
	return func(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error) {
		r := probability(repeated(advantages, len(n.V)))
		v := o.Of(n, r)
		return trainer.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"kl": {v.KL}, "distance_to_old": {v.OldDistance}, "probability": r}}, nil
	}
}

// matching is AWM: ratios of matching errors, whose old ones the weights that rolled answer.
func matching(l experiment.Loss) verdict {
	o := l.AWM()
	return func(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error) {
		ones := repeated([]float64{1}, len(n.V))
		before := n
		before.V = n.VOld
		old, _, err := loss.AWMLogProb(before, l.Weighting, l.Power, ones)
		if err != nil {
			return trainer.Verdict{}, err
		}
		lp, slope, err := loss.AWMLogProb(n, l.Weighting, l.Power, ones)
		if err != nil {
			return trainer.Verdict{}, err
		}
		terms := loss.AWMTerms{Advantage: advantages, V: n.V, VRef: n.VRef, VEMA: n.EMA}
		for i := range lp {
			if i%len(samples) == 0 {
				terms.LogProb, terms.Old = append(terms.LogProb, nil), append(terms.Old, nil)
			}
			k := i / len(samples)
			terms.LogProb[k], terms.Old[k] = append(terms.LogProb[k], lp[i]), append(terms.Old[k], old[i])
		}
		for _, time := range n.Time {
			terms.Std = append(terms.Std, loss.AWMDeviation(time))
		}
		v, err := o.Of(terms)
		if err != nil {
			return trainer.Verdict{}, err
		}
		for i := range v.GradV {
			for e := range v.GradV[i] {
				v.GradV[i][e] += float64(v.GradLogProb[i/len(samples)][i%len(samples)] * slope[i][e])
			}
		}
		return trainer.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"kl": {v.KL}}}, nil
	}
}

// pairs is DPO between the best and the worst of every group.
func pairs(l experiment.Loss) verdict {
	return func(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error) {
		var chosen [][2]int
		for _, p := range advantage.Pairs(ids(samples), advantages, 0) {
			for row := 0; row < len(n.V); row += len(samples) {
				chosen = append(chosen, [2]int{row + p[0], row + p[1]})
			}
		}
		if len(chosen) == 0 {
			return trainer.Verdict{}, fmt.Errorf("no prompt has two samples to prefer one of")
		}
		v := loss.DPO(n, chosen, l.Beta)
		return trainer.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"accuracy": {v.Accuracy}, "margin": {v.Margin}}}, nil
	}
}

// weighted is flow matching with advantages as weights: reward-weighted regression, or, where the
// estimator is "best", fine-tuning on the best.
func weighted(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error) {
	value, grad := loss.WeightedFlow(n, repeated(advantages, len(n.V)))
	return trainer.Verdict{Loss: value, Grad: grad}, nil
}

// preferred is DGPO.
func preferred(l experiment.Loss, group int) verdict {
	o := l.DGPO(group)
	return func(n loss.Noised, samples []trainer.Sample, advantages []float64) (trainer.Verdict, error) {
		of := ids(samples)
		var rows []int // a time of a prompt is a group of its own
		for row := range n.V {
			rows = append(rows, of[row%len(samples)]*(len(n.V)/len(samples))+row/len(samples))
		}
		value, grad := o.Of(n, repeated(advantages, len(n.V)), rows)
		return trainer.Verdict{Loss: value, Grad: grad}, nil
	}
}

// ids number the groups: samples of one prompt and one iteration.
func ids(samples []trainer.Sample) []int {
	all := make([]int, len(samples))
	number := map[[2]int]int{}
	for i, s := range samples {
		of := [2]int{s.Key.Iteration, s.Key.Prompt}
		if _, ok := number[of]; !ok {
			number[of] = len(number)
		}
		all[i] = number[of]
	}
	return all
}

// repeated is x over and over, n numbers.
func repeated(x []float64, n int) []float64 {
	return slices.Repeat(x, n/len(x))
}

// draw is the time and the noise of noised samples: one time a slice of the schedule's range, at
// random within it, shifted as the schedule is.
func (t *Training) draw(turn experiment.Turn) func(k trainer.Key, n int) (float64, []float64) {
	steps, times := turn.Schedule.Steps(), max(1, turn.Loss.Times)
	return func(k trainer.Key, n int) (float64, []float64) {
		key := t.root().With("times").Iteration(k.Iteration).Prompt(uint64(k.Prompt)).Sample(k.Sample).Step(n)
		if k.Iteration != t.loop.Iteration { // a sample that is reused is noised anew
			key = key.With("again").Iteration(t.loop.Iteration)
		}
		at := (float64(n) + key.Draw().Float64()) / float64(times)
		time := turn.Schedule.Sigmas[min(int(at*float64(steps)), steps-1)]
		z := make([]float32, t.model.at.Len())
		key.With("noise of a noised sample").Normal(z, 0)
		noise := make([]float64, len(z))
		for i, v := range z {
			noise[i] = float64(v)
		}
		return time, noise
	}
}
