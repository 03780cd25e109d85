package advantage

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Which samples are trained on. A sample whose score is missing is never chosen.

// BestOfN keeps the ⌈n/2⌉ highest scores, then the ⌊n/2⌋ lowest, both ascending (DanceGRPO: the middle of a batch
// teaches least). With fewer than n scores it keeps all.
func BestOfN(scores []float64, n int) []int {
	order := ascending(scores)
	n = min(n, len(order))
	return append(slices.Clone(order[len(order)-(n+1)/2:]), order[:n/2]...)
}

// Largest keeps the n scores farthest from 0, in the order of samples (CPPO; Lin et al., 2025: samples with a small
// advantage move little and cost as much). Of equals the first is kept. CPPO fills the freed places with more
// samples; here the group is larger than n from the start.
func Largest(scores []float64, n int) []int {
	var order []int
	for i, s := range scores {
		if !math.IsNaN(s) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(scores[b]), math.Abs(scores[a])) })
	return slices.Sorted(slices.Values(order[:min(n, len(order))]))
}

// FirstAndDrawn keeps the first of the highest scores, and n-1 of the others, drawn by u, n-1 numbers in [0, 1)
// (PF-PPO; Shen and Zhang, 2024: a reward model errs least about its best answers, and a drawn one beside shows
// where they lead from). The order is that of samples.
func FirstAndDrawn(u, scores []float64, n int) []int {
	order := ascending(scores)
	if len(order) == 0 || n == 0 {
		return nil
	}
	best := order[len(order)-1]
	others := make([]float64, len(scores))
	for _, i := range order {
		if scores[i] == scores[best] && i < best {
			best = i
		}
		others[i] = 1
	}
	others[best] = 0
	return slices.Sorted(slices.Values(append(portable.Weighted(u, others, n-1), best)))
}

// ascending are the places of scores, lowest first; of equals the first is first.
func ascending(scores []float64) []int {
	var order []int
	for i, s := range scores {
		if !math.IsNaN(s) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return 0
	})
	return order
}

// Pairs are the best and the worst sample of every group with at least two, for DPO: of
// equals the first is the best and the last the worst (verl-omni). Pairs whose scores differ
// by less than margin are left out; verl-omni's margin is 0, which keeps pairs of equals.
func Pairs(ids []int, scores []float64, margin float64) [][2]int {
	var pairs [][2]int
	for _, g := range presentGroups(ids, scores) {
		best, worst := g[0], g[0]
		for _, i := range g[1:] {
			if scores[i] > scores[best] {
				best = i
			}
			if scores[i] <= scores[worst] {
				worst = i
			}
		}
		if len(g) > 1 && scores[best]-scores[worst] >= margin {
			pairs = append(pairs, [2]int{best, worst})
		}
	}
	return pairs
}

// BestCard describes best_of, with its source.
const BestCard = "Of a group its best and its worst samples are learned from (DanceGRPO), the largest advantages (CPPO), or the best and drawn others (PF-PPO); all of them are compared."

// MarginCard describes margin, with its source.
const MarginCard = "Of objective dpo: pairs whose totals lie closer are left out (verl-omni)."

// PairOptions are the options of objectives over pairs of samples.
type PairOptions struct {
	Margin float64 `toml:"margin" range:"[0,inf)" doc:"of objective dpo: pairs whose scores lie closer are left out"`
}

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
