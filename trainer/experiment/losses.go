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

// A NoisedLoss is the loss of samples that were noised to so many times. Samples of one group share a number. It may
// see any number of times at once, unless its objective's kind says Together: row n·len(groups)+i is the n-th of
// sample i.
type NoisedLoss = func(times int, groups []int, advantages []float64) loss.Walk

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
	return func(times int, groups []int, advantages []float64) loss.Walk {
		rows := times * len(groups)
		r := probability(repeated(advantages, rows))
		var sums loss.NFTResult
		return loss.Walk{
			Next: func(n loss.Noised) ([][]float64, error) { return o.Add(&sums, n, r[:len(n.V)], rows), nil }, // alike at all times
			Verdict: func() loss.Verdict {
				return loss.Verdict{Loss: sums.Loss, Metrics: map[string][]float64{"kl": {sums.KL}, "distance_to_old": {sums.OldDistance}, "probability": r}}
			},
		}
	}
}

// centred is CRD. The samples at one of their times are a batch, whose mean rewards are centred by.
func centred(l Loss, _ int) NoisedLoss {
	o := l.CRD()
	return func(times int, groups []int, advantages []float64) loss.Walk {
		v := loss.Verdict{Metrics: map[string][]float64{}}
		return loss.Walk{
			Next: func(n loss.Noised) (all [][]float64, err error) {
				for row := 0; row < len(n.V); row += len(groups) {
					r := o.Of(n.Rows(row, row+len(groups)), advantages)
					v.Loss += r.Loss / float64(times)
					for _, grad := range r.GradV {
						for e := range grad {
							grad[e] /= float64(times)
						}
						all = append(all, grad)
					}
					v.Metrics["kl"], v.Metrics["own_reward"] = append(v.Metrics["kl"], r.Distant...), append(v.Metrics["own_reward"], r.Reward...)
				}
				return all, nil
			},
			Verdict: func() loss.Verdict { return v },
		}
	}
}

// matching is AWM: ratios of matching errors; the old errors are those of the weights that rolled.
func matching(l Loss, _ int) NoisedLoss {
	o := l.AWM()
	return func(times int, groups []int, advantages []float64) loss.Walk {
		var sums loss.AWMSums
		return loss.Walk{
			Next: func(n loss.Noised) ([][]float64, error) {
				ones := repeated([]float64{1}, len(n.V))
				before := n
				before.V = n.VOld
				old, _, err := loss.AWMLogProb(before, l.Weighting, l.Power, ones)
				if err != nil {
					return nil, err
				}
				lp, slope, err := loss.AWMLogProb(n, l.Weighting, l.Power, ones)
				if err != nil {
					return nil, err
				}
				terms := loss.AWMTerms{Advantage: advantages, V: n.V, VRef: n.VRef, VEMA: n.EMA}
				for row := 0; row < len(lp); row += len(groups) {
					terms.LogProb, terms.Old = append(terms.LogProb, lp[row:row+len(groups)]), append(terms.Old, old[row:row+len(groups)])
				}
				for _, time := range n.Time {
					terms.Std = append(terms.Std, loss.AWMDeviation(time))
				}
				byLogProb, grad, err := o.Add(&sums, terms, times)
				if err != nil {
					return nil, err
				}
				for i := range grad {
					for e := range grad[i] {
						grad[i][e] += float64(byLogProb[i/len(groups)][i%len(groups)] * slope[i][e])
					}
				}
				return grad, nil
			},
			Verdict: func() loss.Verdict {
				v := o.Sums(sums)
				return loss.Verdict{Loss: v.Loss, Metrics: map[string][]float64{"kl": {v.KL}}}
			},
		}
	}
}

// preferredPairs is DPO between the best and the worst of every group.
func preferredPairs(l Loss, _ int) NoisedLoss {
	return func(times int, groups []int, advantages []float64) loss.Walk {
		pairs := advantage.Pairs(groups, advantages, 0)
		var inside [][]float64 // by time
		return loss.Walk{
			Next: func(n loss.Noised) (all [][]float64, err error) {
				if len(pairs) == 0 {
					return nil, fmt.Errorf("no prompt has two samples to prefer one of")
				}
				for row := 0; row < len(n.V); row += len(groups) {
					s, grad := loss.DPOInside(n.Rows(row, row+len(groups)), pairs, l.Beta, times*len(pairs))
					inside, all = append(inside, s), append(all, grad...)
				}
				return all, nil
			},
			Verdict: func() loss.Verdict {
				var each []float64 // of a pair, all times
				for p := range pairs {
					for _, at := range inside {
						each = append(each, at[p])
					}
				}
				v := loss.DPOSums(each)
				return loss.Verdict{Loss: v.Loss, Metrics: map[string][]float64{"accuracy": {v.Accuracy}, "margin": {v.Margin}}}
			},
		}
	}
}

// weighted is flow matching with advantages as weights: reward-weighted regression, or, where the
// estimator is "best", fine-tuning on the best.
func weighted(Loss, int) NoisedLoss {
	return func(times int, groups []int, advantages []float64) loss.Walk {
		var v loss.Verdict
		return loss.Walk{
			Next: func(n loss.Noised) ([][]float64, error) {
				return loss.AddWeightedFlow(&v.Loss, n, repeated(advantages, len(n.V)), times*len(groups)), nil
			},
			Verdict: func() loss.Verdict { return v },
		}
	}
}

// preferredGroups is DGPO.
func preferredGroups(l Loss, group int) NoisedLoss {
	o := l.DGPO(group)
	return func(times int, groups []int, advantages []float64) loss.Walk {
		var v loss.Verdict
		return loss.Walk{
			Next: func(n loss.Noised) ([][]float64, error) {
				var rows []int // a time of a prompt is a group of its own
				for row := range n.V {
					rows = append(rows, groups[row%len(groups)]*(len(n.V)/len(groups))+row/len(groups))
				}
				return o.Add(&v.Loss, n, repeated(advantages, len(n.V)), rows, times*len(groups)), nil
			},
			Verdict: func() loss.Verdict { return v },
		}
	}
}

// repeated is x over and over, n numbers.
func repeated(x []float64, n int) []float64 {
	return slices.Repeat(x, n/len(x))
}
