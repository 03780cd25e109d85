package experiment

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// The losses of objectives on pictures, as names.go has them in its rows.

// A StepLoss is the loss of a sampler's transitions.
type StepLoss = func(loss.Terms) (loss.Result, error)

// A NoisedLoss is the loss of samples that were noised: row n·len(groups)+i is the n-th time of sample i,
// and samples of one group share a number.
type NoisedLoss = func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error)

// distilled is the distance from the teacher alone, as the clip adds it to its own loss.
func distilled(l Loss) StepLoss {
	o := l.Clip()
	return func(t loss.Terms) (loss.Result, error) {
		t.Advantage = make([]float64, len(t.Advantage))
		return o.Of(t)
	}
}

// implicit is DiffusionNFT.
func implicit(l Loss, _ int) NoisedLoss {
	o, probability := l.NFT()
	return func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error) {
		r := probability(repeated(advantages, len(n.V)))
		v := o.Of(n, r)
		return loss.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"kl": {v.KL}, "distance_to_old": {v.OldDistance}, "probability": r}}, nil
	}
}

// centred is CRD. The samples at one of their times are a batch, whose mean rewards are centred by.
func centred(l Loss, _ int) NoisedLoss {
	o := l.CRD()
	return func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error) {
		v := loss.Verdict{Metrics: map[string][]float64{}}
		times := float64(len(n.V) / len(groups))
		for row := 0; row < len(n.V); row += len(groups) {
			r := o.Of(n.Rows(row, row+len(groups)), advantages)
			v.Loss += r.Loss / times
			for _, grad := range r.GradV {
				for e := range grad {
					grad[e] /= times
				}
				v.Grad = append(v.Grad, grad)
			}
			v.Metrics["kl"], v.Metrics["own_reward"] = append(v.Metrics["kl"], r.Distant...), append(v.Metrics["own_reward"], r.Reward...)
		}
		return v, nil
	}
}

// matching is AWM: ratios of matching errors; the old errors are those of the weights that rolled.
func matching(l Loss, _ int) NoisedLoss {
	o := l.AWM()
	return func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error) {
		ones := repeated([]float64{1}, len(n.V))
		before := n
		before.V = n.VOld
		old, _, err := loss.AWMLogProb(before, l.Weighting, l.Power, ones)
		if err != nil {
			return loss.Verdict{}, err
		}
		lp, slope, err := loss.AWMLogProb(n, l.Weighting, l.Power, ones)
		if err != nil {
			return loss.Verdict{}, err
		}
		terms := loss.AWMTerms{Advantage: advantages, V: n.V, VRef: n.VRef, VEMA: n.EMA}
		for i := range lp {
			if i%len(groups) == 0 {
				terms.LogProb, terms.Old = append(terms.LogProb, nil), append(terms.Old, nil)
			}
			k := i / len(groups)
			terms.LogProb[k], terms.Old[k] = append(terms.LogProb[k], lp[i]), append(terms.Old[k], old[i])
		}
		for _, time := range n.Time {
			terms.Std = append(terms.Std, loss.AWMDeviation(time))
		}
		v, err := o.Of(terms)
		if err != nil {
			return loss.Verdict{}, err
		}
		for i := range v.GradV {
			for e := range v.GradV[i] {
				v.GradV[i][e] += float64(v.GradLogProb[i/len(groups)][i%len(groups)] * slope[i][e])
			}
		}
		return loss.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"kl": {v.KL}}}, nil
	}
}

// preferredPairs is DPO between the best and the worst of every group.
func preferredPairs(l Loss, _ int) NoisedLoss {
	return func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error) {
		var chosen [][2]int
		for _, p := range advantage.Pairs(groups, advantages, 0) {
			for row := 0; row < len(n.V); row += len(groups) {
				chosen = append(chosen, [2]int{row + p[0], row + p[1]})
			}
		}
		if len(chosen) == 0 {
			return loss.Verdict{}, fmt.Errorf("no prompt has two samples to prefer one of")
		}
		v := loss.DPO(n, chosen, l.Beta)
		return loss.Verdict{Loss: v.Loss, Grad: v.GradV, Metrics: map[string][]float64{"accuracy": {v.Accuracy}, "margin": {v.Margin}}}, nil
	}
}

// weighted is flow matching with advantages as weights: reward-weighted regression, or, where the
// estimator is "best", fine-tuning on the best.
func weighted(Loss, int) NoisedLoss {
	return func(n loss.Noised, _ []int, advantages []float64) (loss.Verdict, error) {
		value, grad := loss.WeightedFlow(n, repeated(advantages, len(n.V)))
		return loss.Verdict{Loss: value, Grad: grad}, nil
	}
}

// preferredGroups is DGPO.
func preferredGroups(l Loss, group int) NoisedLoss {
	o := l.DGPO(group)
	return func(n loss.Noised, groups []int, advantages []float64) (loss.Verdict, error) {
		var rows []int // a time of a prompt is a group of its own
		for row := range n.V {
			rows = append(rows, groups[row%len(groups)]*(len(n.V)/len(groups))+row/len(groups))
		}
		value, grad := o.Of(n, repeated(advantages, len(n.V)), rows)
		return loss.Verdict{Loss: value, Grad: grad}, nil
	}
}

// repeated is x over and over, n numbers.
func repeated(x []float64, n int) []float64 {
	return slices.Repeat(x, n/len(x))
}
