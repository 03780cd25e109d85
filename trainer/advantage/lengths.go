package advantage

import (
	"fmt"
	"math"
)

// Estimators of answers that look at more than the group's rewards.

// OPO is the reward minus its group's mean weighted by length, which is the optimal baseline
// of a policy gradient under simple assumptions (Hao et al., 2025). One alone keeps its own
// reward (verl). Invariant (tests): Σ length·a of a group is 0; equal lengths give r - mean.
func OPO(ids []int, rewards, lengths []float64) ([]float64, error) {
	if len(lengths) != len(rewards) {
		return nil, fmt.Errorf("%d samples have %d lengths: opo needs that of every sample", len(rewards), len(lengths))
	}
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		total, length := 0.0, 0.0
		for _, i := range g {
			total, length = total+float64(rewards[i]*lengths[i]), length+lengths[i]
		}
		for _, i := range g {
			if out[i] = rewards[i]; len(g) > 1 && length > 0 {
				out[i] -= total / length
			}
		}
	}
	return out, nil
}

// GPG scales r - mean by samples over those whose reward is not 0, over norm (Chu et al.,
// 2025): what few samples teach is not drowned by those that teach nothing. verl overwrites
// whatever alpha was configured with this one.
func GPG(ids []int, rewards []float64, norm float64) ([]float64, error) {
	out, err := Options{Over: "group", Baseline: "mean", Scale: "none", Singleton: "raw"}.Of(ids, rewards)
	there, nonzero := 0.0, 0.0
	for _, r := range rewards {
		if !math.IsNaN(r) {
			there++
			if r != 0 {
				nonzero++
			}
		}
	}
	for i := range out {
		out[i] *= there / math.Max(nonzero, 1) / norm
	}
	return out, err
}
