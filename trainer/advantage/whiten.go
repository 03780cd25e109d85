package advantage

import (
	"fmt"
	"math"
)

// Whiten gives the tokens of a batch mean 0 and deviation 1, so that long answers weigh more
// in the statistics than short ones:
//
//	a' = (a - mean) / √variance
//
// verl divides squares by n - 1 and adds 1e-8 to the variance, and to the number of tokens; OpenRLHF divides by n,
// and 1e-8 is the variance's floor. GAE, OpenRLHF and EasyR1's REINFORCE++ leave values outside the mask whitened as
// well, where others write 0.
//
// Invariants (tests): mean 0 and deviation 1 over the mask; a missing answer stays missing and
// moves no other.
type Whiten struct {
	On      bool    `toml:"on" doc:"whiten advantages over all tokens of the batch"`
	DDOF    int     `toml:"ddof" range:"[0,1]" doc:"0: variance over n; 1: over n-1"`
	Eps     float64 `toml:"eps" range:"[0,inf)" doc:"keeps the variance from 0"`
	Floor   bool    `toml:"floor" doc:"eps is the variance's floor, not added to it"`
	Extra   float64 `toml:"extra" range:"[0,inf)" doc:"added to the number of tokens"`
	Outside bool    `toml:"outside" doc:"values outside the mask are moved too, not 0"`
}

// DefaultWhiten is verl's, when it is turned on.
func DefaultWhiten() Whiten { return Whiten{DDOF: 1, Eps: 1e-8, Extra: 1e-8} }

// Of whitens x, or hands it on.
func (w Whiten) Of(x, mask [][]float64) [][]float64 {
	if !w.On {
		return x
	}
	mean, scale := w.moments(x, mask)
	out := make([][]float64, len(x))
	for i, row := range x {
		out[i] = make([]float64, len(row))
		for t, v := range row {
			if w.Outside {
				out[i][t] = (v - mean) / scale
			} else if on := mask[i][t]; on != 0 {
				out[i][t] = (v - mean) / scale * on
			}
		}
	}
	return out
}

// moments are the mean and the deviation over the mask, without missing values.
func (w Whiten) moments(x, mask [][]float64) (mean, scale float64) {
	over := func(f func(v float64) float64) (sum, n float64) {
		for i, m := range mask {
			for t, on := range m {
				if on != 0 && !math.IsNaN(x[i][t]) {
					sum, n = sum+float64(f(x[i][t])*on), n+on
				}
			}
		}
		return sum, n
	}
	sum, n := over(func(v float64) float64 { return v })
	mean = sum / (n + w.Extra)
	squares, _ := over(func(v float64) float64 { return (v - mean) * (v - mean) })
	variance := squares / (n + w.Extra)
	if w.DDOF == 1 && n > 1 {
		variance *= n / (n - 1)
	}
	if w.Floor {
		return mean, math.Sqrt(math.Max(variance, w.Eps))
	}
	return mean, math.Sqrt(variance + w.Eps)
}

// Samples whitens values that all decisions of a sample share, over the decisions of the batch.
func (w Whiten) Samples(a, lengths []float64) ([]float64, error) {
	if len(lengths) != len(a) {
		return nil, fmt.Errorf("%d samples have %d lengths: whitening counts the decisions of every sample", len(a), len(lengths))
	}
	x, mask := make([][]float64, len(a)), make([][]float64, len(a))
	for i, v := range a {
		x[i], mask[i] = []float64{v}, []float64{lengths[i]}
	}
	mean, scale := w.moments(x, mask)
	out := make([]float64, len(a))
	for i, v := range a {
		out[i] = (v - mean) / scale
	}
	return out, nil
}

// ReinforceBaselineRule is REINFORCE++ with a baseline.
var ReinforceBaselineRule = Rule{
	Name: "reinforce++-baseline", Card: "Reward less its group's mean, whitened over the batch's tokens (REINFORCE++ with a baseline).",
	Paper: "REINFORCE++ with a baseline (Hu, 2025)", Formula: "r - mean of group, whitened over the batch's tokens", Cases: []string{"vlm.adv_reinforce_pp_baseline"},
	Company: InGroup, GroupMean: true, Options: CreditOptions{},
	Set: func(s *Settings) {
		compares("group", "mean", "none")(s)
		s.Singleton, s.Credit.Whiten.On = "raw", true
	},
	Samples: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		a, err := e.Options.Of(b.Groups, r)
		if err != nil {
			return nil, err
		}
		return e.Whiten.always().Samples(a, b.Lengths)
	}),
}

// ReinforceRule is REINFORCE++.
var ReinforceRule = Rule{
	Name: "reinforce++", Card: "Rewards to come, discounted by credit.gamma, whitened over the batch's tokens (REINFORCE++); of pictures, rewards whitened over the batch.",
	Paper: "REINFORCE++ (Hu, 2025)", Formula: "rewards to come, discounted by γ, whitened over the batch's tokens", Cases: []string{"vlm.adv_reinforce_pp"},
	Company: InBatch, Credit: "gae", Options: CreditOptions{},
	Set: func(s *Settings) {
		s.Credit.How, s.Credit.Observations, s.Credit.Whiten.On = "gae", "reset", true
	},
	Samples: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		return e.Whiten.always().Samples(r, b.Lengths)
	}),
}

// always is turned on.
func (w Whiten) always() Whiten {
	w.On = true
	return w
}
