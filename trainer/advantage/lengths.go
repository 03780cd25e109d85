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

// GPG scales r - mean by samples over those whose reward is not 0, over norm (Chu et al., 2025): the few samples that
// teach are not drowned by those that teach nothing. verl overwrites whatever alpha was configured with this one.
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

// OPORule is OPO's.
var OPORule = Rule{
	Name: "opo", Card: "Reward less its group's mean weighted by length (OPO); pictures have one length, so that it is dr.",
	Paper: "OPO (Hao et al., 2025)", Formula: "r - Σ length·r / Σ length over the group", Cases: []string{"vlm.adv_opo"},
	Company: InGroup, GroupMean: true,
	Outcome: rewardOf(func(_ Estimator, b Batch, r []float64) ([]float64, error) { return OPO(b.Groups, r, b.Lengths) }),
}

// GPGOptions are the options of GPG's rule.
type GPGOptions struct {
	Norm float64 `toml:"norm" range:"(0,inf)" doc:"of gpg: what advantages are divided by"`
}

// GPGRule is GPG's.
var GPGRule = Rule{
	Name: "gpg", Card: "As dr, times samples over those whose reward is not 0 (GPG).",
	Paper: "GPG (Chu et al., 2025)", Formula: "(r - mean of group) · samples / samples with r ≠ 0 / norm", Cases: []string{"vlm.adv_gpg"},
	Company: InGroup, GroupMean: true, Options: GPGOptions{},
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		norm := e.Norm
		if norm == 0 {
			norm = 1
		}
		return GPG(b.Groups, r, norm)
	}),
}
