package advantage

import "math"

// Rules that look only at who is best. A missing reward is never the worst one.
//
// Invariants (tests): of a group Best has only ones and zeros, Ends adds up to 0, and PassAtK
// has at most one value that is not 0.

// Best is 1 for every maximum of its group, else 0: fine-tuning on the best (flow_grpo's
// "sft").
func Best(ids []int, rewards []float64) []float64 {
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		top := math.Inf(-1)
		for _, i := range g {
			top = math.Max(top, rewards[i])
		}
		for _, i := range g {
			if rewards[i] == top {
				out[i] = 1
			}
		}
	}
	return out
}

// Ends is +1 for a group's first maximum and -1 for its first minimum (flow_grpo's "dpo").
// Where all are equal upstream still makes a pair: the first sample is the worst and the
// second the best. With skip such a group gets 0, for it says nothing.
func Ends(ids []int, rewards []float64, skip bool) []float64 {
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		if len(g) < 2 {
			continue
		}
		best, worst := g[0], g[0]
		for _, i := range g {
			if rewards[i] > rewards[best] {
				best = i
			}
			if rewards[i] < rewards[worst] {
				worst = i
			}
		}
		if best == worst {
			if skip {
				continue
			}
			best = g[1]
		}
		out[best], out[worst] = 1, -1
	}
	return out
}

// PassAtK gives the best of a group its lead over the second, and everybody else 0 (verl's
// grpo_passk; Walder and Karkhanis, 2025), over o's scale of the group where it has one.
func PassAtK(o Options, ids []int, rewards []float64) []float64 {
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		if len(g) < 2 {
			continue
		}
		best, second := g[0], -1
		for _, i := range g[1:] {
			if rewards[i] > rewards[best] {
				best, second = i, best
			} else if second < 0 || rewards[i] > rewards[second] {
				second = i
			}
		}
		lead := rewards[best] - rewards[second]
		if o.Scale != "none" && lead > 0 {
			lead /= o.divisor(deviation(pick(rewards, g), o.DDOF))
		}
		out[best] = lead
	}
	return out
}

// BestRule is fine-tuning on the best.
var BestRule = Rule{
	Name: "best", Card: "1 for the best of a group, 0 for all others (fine-tuning on the best).",
	Paper: "fine-tuning on the best (flow_grpo's sft)", Formula: "1 where r is the group's largest, else 0", Cases: []string{"adv.stat_tracker"},
	Company: InGroup, Alone: true,
	Outcome: rewardOf(func(_ Estimator, b Batch, r []float64) ([]float64, error) { return Best(b.Groups, r), nil }),
}

// EndsRule is online DPO's.
var EndsRule = Rule{
	Name: "ends", Card: "+1 for the best of a group, -1 for the worst, 0 for all others (online DPO).",
	Paper: "online DPO (flow_grpo's dpo)", Formula: "+1 for the group's best, -1 for its worst, else 0", Cases: []string{"adv.stat_tracker", "select.dpo_pairs"},
	Company: InGroup, Ends: true,
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		return Ends(b.Groups, r, e.Flat == "zero"), nil
	}),
}

// PassAtKRule is verl's.
var PassAtKRule = Rule{
	Name: "pass-at-k", Card: "Only the best of a group counts, by its lead over the second (verl).",
	Paper: "verl", Formula: "the group's best has its lead over the second, all others 0", Cases: []string{"vlm.adv_passk"},
	Company: InGroup, Scaled: true,
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		return PassAtK(e.Options, b.Groups, r), nil
	}),
}
