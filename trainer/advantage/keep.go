package advantage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Keep compares only some samples of a group (GFPO; Shrivastava et al., 2025): a large group is
// rolled, and the Of best by something other than the reward are kept,
//
//	length      the shortest answers
//	efficiency  the answers with the largest reward per token
//
// Mean and deviation are of those that are kept. The others are left out, as if they were missing:
// the paper gives them the advantage 0, which moves nothing either; its sum over tokens counts them.
//
// Invariants (tests): Of at least the group's size changes nothing; order never matters but for ties.
type Keep struct {
	Of int    `toml:"of,required" range:"[1,1e6]" doc:"samples of a group that are compared"`
	By string `toml:"by" enum:"length,efficiency" doc:"the shortest, or those with the largest reward per token"`
}

// Card describes the choice and names its source.
func (Keep) Card() string {
	return "Of a large group only the shortest answers, or those with the largest reward per token, are compared (GFPO)."
}

// SetDefaults is the paper's first choice.
func (k *Keep) SetDefaults() { *k = Keep{By: "length"} }

// kept are the rewards, NaN where a sample is left out.
func (k Keep) kept(b Batch, sum []float64) ([][]float64, error) {
	if len(b.Lengths) != len(b.Groups) {
		return nil, fmt.Errorf("advantage.keep looks at the lengths of answers, and there are %d for %d samples", len(b.Lengths), len(b.Groups))
	}
	rank := func(i int) float64 {
		if k.By == "efficiency" {
			return -sum[i] / math.Max(b.Lengths[i], 1)
		}
		return b.Lengths[i]
	}
	out := make([][]float64, len(b.Rewards))
	for r := range out {
		out[r] = slices.Clone(b.Rewards[r])
	}
	for _, g := range presentGroups(b.Groups, sum) {
		order := slices.Clone(g)
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(rank(i), rank(j)) })
		for _, i := range order[min(k.Of, len(order)):] {
			for r := range out {
				out[r][i] = math.NaN()
			}
		}
	}
	return out, nil
}
