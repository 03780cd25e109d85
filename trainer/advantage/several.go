package advantage

import (
	"fmt"
	"math"
)

// Several rewards a sample become one advantage:
//
//	rewards     Σ w·r, then the estimator (MixGRPO's reward_aggr, Flow-Factory's sum)
//	advantages  Σ w·(estimator of each reward) (MixGRPO's advantage_aggr, DanceGRPO, GenRL)
//	gdpo        the latter, compared once more over the batch (GDPO; Liu et al., 2026; TRL's
//	            normalize_then_sum)
//
// A sample with any reward missing has none: its sum is NaN. With Partial those that are
// there are added up (TRL), and only a sample without any is missing. Weights are used as
// they are given; package rewards can divide them by their sum.
//
// Invariants (tests): one reward of weight 1 is the estimator itself; a reward times 1000
// changes nothing in advantages and gdpo.
type Several struct {
	How     string `toml:"combine" enum:"rewards,advantages,gdpo" doc:"what is added up"`
	Partial bool   `toml:"partial" doc:"add up the rewards that are there"`
}

// an each is an estimator of one reward.
type each = func(rewards []float64) ([]float64, error)

// Of combines rewards[k][sample]; o is the estimator that gdpo compares with once more.
func (s Several) Of(ids []int, rewards [][]float64, weights []float64, of each, o Options) ([]float64, error) {
	if s.How == "rewards" || s.How == "" {
		sum, err := s.Add(rewards, weights)
		if err != nil {
			return nil, err
		}
		return of(sum)
	}
	parts := make([][]float64, len(rewards))
	for k, r := range rewards {
		var err error
		if parts[k], err = of(r); err != nil {
			return nil, fmt.Errorf("reward %d: %w", k, err)
		}
	}
	sum, err := s.Add(parts, weights)
	if err != nil || s.How != "gdpo" {
		return sum, err
	}
	o.Over, o.Baseline, o.Scale, o.Trim = "batch", "mean", "group", 0
	return o.Of(ids, sum)
}

// Add is Σ w·part for every sample.
func (s Several) Add(parts [][]float64, weights []float64) ([]float64, error) {
	if len(parts) != len(weights) || len(parts) == 0 {
		return nil, fmt.Errorf("%d rewards have %d weights", len(parts), len(weights))
	}
	sum := make([]float64, len(parts[0]))
	for i := range sum {
		found := false
		for k, part := range parts {
			if s.Partial && math.IsNaN(part[i]) {
				continue
			}
			sum[i] += float64(weights[k] * part[i])
			found = true
		}
		if !found {
			sum[i] = math.NaN()
		}
	}
	return sum, nil
}
