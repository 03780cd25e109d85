package advantage

import "math"

// The optimal token baseline (verl's optimal_token_baseline): a baseline for every position of
// a group, weighted by how much the policy has chosen until there:
//
//	w(t) = 1 - 2·p(t) + Σ p²   the squared length of the log-probability's gradient
//	W(t) = Σ w·mask up to t    times ρ² of the rollout correction, where there is one
//	B(t) = Σ G(t)·W(t) / (Σ W(t) + 1e-8)   over the group's answers that have a token at t
//	a(t) = G(t) - B(t)          G: rewards to come, undiscounted
//
// One answer alone has no baseline. With ZeroTail the longest answer has none beyond the
// second longest, where it would be its own: verl cuts at that number of tokens, counted as a
// position, whichever way positions are counted. With Compact (verl's
// tir_optimal_token_baseline) positions are counted over the policy's tokens, so that answers
// with observations between are compared step by step.
//
// Invariants (tests): Σ W·a of a position is 0; without observations Compact changes nothing.
func (c Credit) lessBaseline(t Tokens) (advantages, returns [][]float64) {
	returns, _ = Credit{Gamma: 1, Lambda: 1, Observations: "count"}.gae(Tokens{Mask: t.Mask, Rewards: t.Rewards})
	energy := t.energy()
	for _, m := range t.Mask {
		advantages = append(advantages, make([]float64, len(m)))
	}
	for _, g := range Groups(t.Groups) {
		places := map[int][]int{} // of each answer's positions
		longest := 0
		var there []int
		for _, i := range g {
			places[i] = c.places(t.Mask[i])
			switch {
			case missing(t.Rewards[i]):
				for _, k := range trained(t.Mask[i]) {
					advantages[i][k] = math.NaN()
				}
			case !c.Compact || len(places[i]) > 0:
				there = append(there, i)
				longest = max(longest, len(places[i]))
			}
		}
		for position := range longest {
			c.position(t, position, there, places, returns, energy, advantages)
		}
	}
	return advantages, returns
}

// position compares a group's answers where they have a token.
func (c Credit) position(t Tokens, position int, group []int, places map[int][]int, returns, energy, advantages [][]float64) {
	var sum, total float64
	for _, i := range group {
		if position < len(places[i]) {
			k := places[i][position]
			w := energy[i][k] * t.Mask[i][k]
			sum, total = sum+returns[i][k]*w, total+w
		}
	}
	for _, i := range group {
		if position >= len(places[i]) {
			continue
		}
		k, base := places[i][position], sum/(total+1e-8)
		if len(group) == 1 || c.ZeroTail && t.beyond(i, position, group) {
			base = 0
		}
		advantages[i][k] = (returns[i][k] - base) * t.Mask[i][k]
	}
}

// places are where an answer's positions lie in its row.
func (c Credit) places(mask []float64) []int {
	if c.Compact {
		return trained(mask)
	}
	all := make([]int, len(mask))
	for k := range all {
		all[k] = k
	}
	return all
}

// trained are the places of the policy's tokens.
func trained(mask []float64) []int {
	var places []int
	for k, on := range mask {
		if on != 0 {
			places = append(places, k)
		}
	}
	return places
}

// beyond says whether a position lies where only the longest answer of a group goes on.
func (t Tokens) beyond(answer, position int, group []int) bool {
	second := 0
	for _, i := range group {
		if i != answer {
			second = max(second, len(trained(t.Mask[i])))
		}
	}
	return len(trained(t.Mask[answer])) > second && position >= second
}

// energy is W.
func (t Tokens) energy() [][]float64 {
	out := make([][]float64, len(t.Mask))
	for i, m := range t.Mask {
		out[i] = make([]float64, len(m))
		sum := 0.0
		for k, on := range m {
			w := 1 - 2*math.Exp(t.LogProb[i][k]) + t.SumSquares[i][k]
			if t.Weights != nil {
				w *= t.Weights[i][k] * t.Weights[i][k]
			}
			sum += w * on
			out[i][k] = sum
		}
	}
	return out
}
