package advantage

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Tokens are a batch of answers, a row each: the policy's tokens, and observations between.
type Tokens struct {
	Groups  []int
	Mask    [][]float64 // 1: the policy's token; 0: an observation, or padding
	Outcome []float64   // an answer's advantage (spread)
	Rewards [][]float64 // a token's reward (gae, baseline); a row with NaN: missing
	Values  [][]float64 // a value network's expectations; nil: 0
	Greedy  []float64   // the reward of the prompt's greedy answer (ReMax); nil: 0

	LogProb    [][]float64 // of the tokens, under the policy that wrote (baseline)
	SumSquares [][]float64 // Σ p² over the vocabulary (baseline)
	Weights    [][]float64 // of the rollout correction (baseline); nil: 1
}

// Credit spreads an answer's reward over its tokens.
//
//	spread    every token has the answer's advantage (GRPO and all of Estimator)
//	gae       generalised advantage estimation (Schulman et al., 2016):
//	          δ = r + γ·V(next) - V, a = δ + γλ·a(next). Without values and with λ = 1 it is
//	          the discounted sum of rewards to come: REINFORCE, REINFORCE++, ReMax
//	baseline  rewards to come less the optimal token baseline (lessBaseline)
//
// Observations are tokens that nobody chose. Upstreams disagree about them in gae:
//
//	skip   the next value and the running sum pass over them undiscounted (verl's GAE)
//	reset  credit does not flow back over them: each turn is its own (verl's REINFORCE++)
//	count  they are tokens with reward 0 and value 0 (OpenRLHF, ROLL, ReMax)
//
// Returns are advantages before whitening, plus values: the targets of a value network.
//
// Invariants (tests): with λ = 1 a return does not depend on values; without observations
// skip, reset and count agree; an answer with a missing reward changes no other.
type Credit struct {
	How          string  `toml:"how" enum:"spread,gae,baseline" doc:"how tokens share what an answer earned"`
	Gamma        float64 `toml:"gamma" range:"[0,1]" doc:"how much a token counts for the one before it"`
	Lambda       float64 `toml:"lambda" range:"[0,1]" doc:"1 trusts rewards, 0 the value network"`
	Observations string  `toml:"observations" enum:"skip,reset,count" doc:"what gae does at tokens that are not the policy's"`
	Compact      bool    `toml:"compact" doc:"baseline: positions are counted over the policy's tokens"`
	ZeroTail     bool    `toml:"zero_tail" doc:"baseline: none where only one answer of a group goes on"`
	Whiten       Whiten  `toml:"whiten"`
}

// DefaultCredit spreads.
func DefaultCredit() Credit {
	return Credit{How: "spread", Gamma: 1, Lambda: 1, Observations: "skip", Whiten: DefaultWhiten()}
}

// Spreads reports whether every token has the answer's own advantage.
func (c Credit) Spreads() bool { return c.How == "spread" }

// ToCome reports whether a token's advantage is of the rewards that come behind it.
func (c Credit) ToCome() bool { return c.How == "gae" }

// Of is the advantage and the return of every token. Rows of missing rewards are NaN where the
// mask is set.
func (c Credit) Of(t Tokens) (advantages, returns [][]float64, err error) {
	if err := t.check(c.How); err != nil {
		return nil, nil, err
	}
	switch c.How {
	case "gae":
		advantages, returns = c.gae(t)
	case "baseline":
		advantages, returns = c.lessBaseline(t)
	default:
		advantages = Spread(t.Outcome, t.Mask)
		returns = advantages
	}
	return c.Whiten.Of(advantages, t.Mask), returns, nil
}

// check finds missing inputs of a rule.
func (t Tokens) check(how string) error {
	needs := map[string]int{"outcomes": len(t.Outcome)}
	switch how {
	case "gae":
		needs = map[string]int{"rewards": len(t.Rewards)}
	case "baseline":
		needs = map[string]int{"groups": len(t.Groups), "rewards": len(t.Rewards), "log-probabilities": len(t.LogProb), "sums of squared probabilities": len(t.SumSquares)}
	}
	for what, n := range needs {
		if n != len(t.Mask) {
			return fmt.Errorf("%d answers have %d %s: credit %q needs those of every answer", len(t.Mask), n, what, how)
		}
	}
	return nil
}

// Spread gives every token of the mask its answer's advantage.
func Spread(perAnswer []float64, mask [][]float64) [][]float64 {
	out := make([][]float64, len(mask))
	for i, m := range mask {
		out[i] = make([]float64, len(m))
		for t, on := range m {
			if on != 0 {
				out[i][t] = perAnswer[i] * on
			}
		}
	}
	return out
}

// AtEnd makes rewards of tokens: an answer's outcome at its last token of the mask, less
// weight·kl at every one. kl nil: 0.
func AtEnd(outcome []float64, mask, kl [][]float64, weight float64) [][]float64 {
	out := make([][]float64, len(mask))
	for i, m := range mask {
		out[i] = make([]float64, len(m))
		last := -1
		for t, on := range m {
			if on == 0 {
				continue
			}
			if last = t; kl != nil {
				out[i][t] = -weight * kl[i][t] * on
			}
		}
		if last >= 0 {
			out[i][last] += outcome[i]
		}
	}
	return out
}

// gae walks every answer from its end.
func (c Credit) gae(t Tokens) (advantages, returns [][]float64) {
	for i, rewards := range t.Rewards {
		if missing(rewards) {
			nobody := Spread([]float64{math.NaN()}, t.Mask[i:i+1])[0]
			advantages, returns = append(advantages, nobody), append(returns, nobody)
			continue
		}
		values := make([]float64, len(rewards))
		if t.Values != nil {
			values = t.Values[i]
		}
		a, r := c.walk(rewards, values, t.Mask[i])
		if t.Greedy != nil {
			for k := range a {
				a[k] -= float64(t.Greedy[i] * t.Mask[i][k])
			}
		}
		advantages, returns = append(advantages, a), append(returns, r)
	}
	return advantages, returns
}

// walk goes through one answer.
func (c Credit) walk(rewards, values, mask []float64) (a, returns []float64) {
	a, returns = make([]float64, len(rewards)), make([]float64, len(rewards))
	next, sum := 0.0, 0.0
	for k := len(rewards) - 1; k >= 0; k-- {
		on := mask[k] > 0
		reward, value := rewards[k], values[k]
		switch {
		case c.Observations == "skip" && !on:
			a[k], returns[k] = sum, sum+value
			continue
		case c.Observations == "count" && !on:
			reward, value = 0, 0
		}
		sum = reward + float64(c.Gamma*next) - value + float64(c.Gamma*c.Lambda*sum)
		next = value
		a[k], returns[k] = sum, sum+value
		if c.Observations == "reset" && !on {
			next, sum = 0, 0
		}
	}
	return a, returns
}

// missing says whether an answer's reward is.
func missing(row []float64) bool { return slices.ContainsFunc(row, math.IsNaN) }

// CreditOptions are how tokens share an answer's reward.
type CreditOptions struct {
	Credit Credit `toml:"credit" of:"tokens" doc:"how the tokens of an answer share what it earned"`
}

// ReMaxRule is ReMax's.
var ReMaxRule = Rule{
	Name: "remax", Card: "Rewards to come, less the reward of the prompt's greedy answer (ReMax).",
	Paper: "ReMax", Formula: "rewards to come, less the reward of the prompt's greedy answer", Cases: []string{"vlm.adv_remax"},
	TokensOnly: true, Credit: "gae", GreedyAnswer: true,
	Set: func(s *Settings) { s.Credit.How, s.Credit.Observations = "gae", "count" },
}

// GAERule is PPO's.
var GAERule = Rule{
	Name: "gae", Card: "Generalised advantage estimation over tokens, with a head of values on the model's own states (loss.value), whitened (PPO).",
	Paper: "PPO's GAE (Schulman et al., 2016)", Formula: "a = δ + γλ·a(next), δ = r + γ·V(next) - V; whitened", Cases: []string{"vlm.adv_gae", "vlm.value_loss"},
	TokensOnly: true, Credit: "gae", ValueHead: true, Options: ValueOptions{},
	Set: func(s *Settings) {
		s.Credit.How, s.Credit.Observations, s.Credit.Whiten.On, s.Credit.Whiten.Outside = "gae", "skip", true, true
	},
}

// ValueOptions are the options of a head of values.
type ValueOptions struct {
	Value ValueHead `toml:"value"`
}

// ValueHead is how a head of values learns.
type ValueHead struct {
	LR        float64 `toml:"lr" range:"(0,inf)" doc:"of gae's head of values, which has an optimiser of its own"`
	ClipRange float64 `toml:"clip_range" range:"(0,inf)" doc:"how far a value may move from where it stood at the roll, as its loss sees it (verl: 0.5)"`
	GradClip  float64 `toml:"grad_clip" range:"[0,inf)" doc:"largest norm of its gradient; 0 does not clip"`
	Warmup    int     `toml:"warmup" range:"[0,1e9]" doc:"iterations in which it learns alone (verl's critic_warmup)"`
}

// DefaultValueOptions are verl's.
func DefaultValueOptions() ValueOptions {
	return ValueOptions{ValueHead{LR: 1e-5, ClipRange: 0.5, GradClip: 1}}
}

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
