package advantage

import (
	"fmt"
	"math"
)

// Several rewards a sample become one advantage:
//
//	rewards     Σ w·r, then the estimator ("reward_aggr")
//	advantages  Σ w·(estimator of each reward) ("advantage_aggr")
//	gdpo        the latter, compared once more over the batch (GDPO; Liu et al., 2026)
//
// A sample with any reward missing has none: its sum is NaN. With Partial those that are there
// are added up (TRL), and only one without any is missing.

// Several says how.
type Several struct {
	Each    Options  // of one reward, or of the sum
	How     string   `toml:"combine" enum:"rewards,advantages,gdpo" doc:"what is added up"`
	After   *Options // of gdpo: over the batch
	Partial bool     `toml:"partial" doc:"add up the rewards that are there"`
}

// Of combines rewards[k][sample].
func (s Several) Of(ids []int, rewards [][]float64, weights []float64) ([]float64, error) {
	if len(rewards) != len(weights) || len(rewards) == 0 {
		return nil, fmt.Errorf("%d rewards with %d weights", len(rewards), len(weights))
	}
	sum, found := make([]float64, len(ids)), make([]bool, len(ids))
	for k, r := range rewards {
		part := r
		if s.How != "rewards" {
			var err error
			if part, err = s.Each.Of(ids, r); err != nil {
				return nil, err
			}
		}
		for i := range sum {
			if s.Partial && math.IsNaN(part[i]) {
				continue
			}
			sum[i] += weights[k] * part[i]
			found[i] = true
		}
	}
	for i := range sum {
		if !found[i] {
			sum[i] = math.NaN()
		}
	}
	switch {
	case s.How == "rewards":
		return s.Each.Of(ids, sum)
	case s.How == "gdpo" && s.After != nil:
		return s.After.Of(ids, sum)
	}
	return sum, nil
}

// WinRate is a sample's wins over its comparisons; a tie, or an answer that could not be
// read, counts one half to each. Rounded to three decimals, as Pref-GRPO has it, where
// rounded is set; a sample that was never compared has 0.
func WinRate(items int, pairs [][2]int, outcome []float64, rounded bool) []float64 {
	wins, games := make([]float64, items), make([]float64, items)
	for i, p := range pairs {
		wins[p[0]] += outcome[i]
		wins[p[1]] += 1 - outcome[i]
		games[p[0]]++
		games[p[1]]++
	}
	for i := range wins {
		if games[i] > 0 {
			wins[i] /= games[i]
		}
		if rounded {
			wins[i] = float64(float32(roundDecimal(wins[i])))
		}
	}
	return wins
}

// roundDecimal rounds to three decimals, half to even on the binary value, as Python does.
func roundDecimal(x float64) float64 {
	var y float64
	if _, err := fmt.Sscanf(fmt.Sprintf("%.3f", x), "%g", &y); err != nil {
		return math.NaN()
	}
	return y
}
