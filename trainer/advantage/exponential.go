package advantage

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Exponential is a sample's weight in reward-weighted regression (Peters and Schaal, 2007; Flow-RWR, Liu et al.,
// 2025):
//
//	e^r over the mean of e^r in its group
//
// where upstream has e^r alone. The division is one factor a prompt, which keeps prompts with large rewards from being
// all that is learned from. How sharp the weights are is the reward's own weight.
//
// Invariants (tests): weights are positive and 1 on average over the group; a constant added to all rewards of a
// group changes nothing; equal rewards have weight 1.
func Exponential(ids []int, rewards []float64) []float64 {
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		top := math.Inf(-1)
		for _, i := range g {
			top = math.Max(top, rewards[i])
		}
		sum := 0.0
		for _, i := range g {
			out[i] = portable.Exp(rewards[i] - top)
			sum += out[i]
		}
		for _, i := range g {
			out[i] = out[i] / sum * float64(len(g))
		}
	}
	return out
}

// ExponentialRule is reward-weighted regression's.
var ExponentialRule = Rule{
	Name: "exponential", Card: "e to the reward, over its group's mean of that: weights that are positive (reward-weighted regression).",
	Paper: "RWR (Peters and Schaal, 2007), Flow-RWR (Liu et al., 2025)", Formula: "e^r over the mean of e^r in the group",
	Company: InGroup,
	Outcome: rewardOf(func(_ Estimator, b Batch, r []float64) ([]float64, error) { return Exponential(b.Groups, r), nil }),
}
