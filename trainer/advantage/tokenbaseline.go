package advantage

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

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
	advantages = Spread(slices.Repeat([]float64{math.NaN()}, len(t.Mask)), t.Mask)
	energy := t.energy()
	for _, g := range Groups(t.Groups) {
		g = slices.DeleteFunc(g, func(i int) bool { return missing(t.Rewards[i]) })
		positions, answers := c.positions(t.Mask, g)
		for position, tokens := range positions {
			var sum, total float64
			for _, at := range tokens {
				w := float64(energy[at.answer][at.token] * t.Mask[at.answer][at.token])
				sum, total = sum+float64(returns[at.answer][at.token]*w), total+w
			}
			base := sum / (total + 1e-8)
			if answers == 1 {
				base = 0
			}
			for _, at := range tokens {
				own := base
				if c.ZeroTail && position >= tail(t.Mask, g, at.answer) {
					own = 0
				}
				advantages[at.answer][at.token] = (returns[at.answer][at.token] - own) * t.Mask[at.answer][at.token]
			}
		}
	}
	return advantages, returns
}

// A place is a token of an answer.
type place struct{ answer, token int }

// positions are the tokens of a group that are compared with each other, and how many answers
// take part.
func (c Credit) positions(mask [][]float64, group []int) (positions [][]place, answers int) {
	for _, i := range group {
		position := 0
		for token, on := range mask[i] {
			if c.Compact && on == 0 {
				continue
			}
			if position == len(positions) {
				positions = append(positions, nil)
			}
			positions[position] = append(positions[position], place{i, token})
			position++
		}
		if position > 0 {
			answers++
		}
	}
	return positions, answers
}

// tail is the position from which an answer goes on alone: the number of tokens of the second
// longest of its group.
func tail(mask [][]float64, group []int, answer int) int {
	second := 0
	for _, i := range group {
		if i != answer {
			second = max(second, written(mask[i]))
		}
	}
	if written(mask[answer]) > second {
		return second
	}
	return math.MaxInt
}

// written is how many tokens are the policy's.
func written(mask []float64) int {
	n := 0
	for _, on := range mask {
		if on != 0 {
			n++
		}
	}
	return n
}

// energy is W.
func (t Tokens) energy() [][]float64 {
	out := make([][]float64, len(t.Mask))
	for i, m := range t.Mask {
		out[i] = make([]float64, len(m))
		sum := 0.0
		for k, on := range m {
			w := 1 - 2*portable.Exp(t.LogProb[i][k]) + t.SumSquares[i][k]
			if t.Weights != nil {
				w *= t.Weights[i][k] * t.Weights[i][k]
			}
			sum += float64(w * on)
			out[i][k] = sum
		}
	}
	return out
}
