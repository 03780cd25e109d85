package advantage

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Beta is BNPO's normalisation (Xiao et al., 2025; not TRL's loss_type of that name): the mean
// reward p of a prompt is a success rate, and a Beta density f fitted to the rates of the batch
// takes the deviation's place,
//
//	a = (r - p) / f(p; α, β)      α = max(1 + a/3, 1)   β = max(1 + b/3, 1)
//	a = (m(1-m)/v - 1) m          b = (m(1-m)/v - 1)(1-m)
//
// with m and v the mean and the variance (over n-1) of the rates. 1/f is at most 1e6. Rewards are
// first mapped from [low, high] to [0, 1].
//
// Corners as upstream: with one group f is 1; a sample alone has p = 0. Where all rates are equal
// upstream divides by v = 0 and trains on NaN; here f is 1.
//
// Invariants (tests): a group's advantages add up to 0; a shift and a factor of rewards and range
// together change nothing.
func Beta(ids []int, rewards []float64, low, high float64) ([]float64, error) {
	if !(high > low) {
		return nil, fmt.Errorf("estimator beta maps rewards from [%g, %g] to [0, 1]: high must lie above low", low, high)
	}
	groups, out := presentGroups(ids, rewards), everywhere(0, rewards)
	rates := make([]float64, len(groups))
	for k, g := range groups {
		for _, i := range g {
			out[i] = (rewards[i] - low) / (high - low)
		}
		if len(g) > 1 {
			rates[k] = mean(pick(out, g))
		}
		if rates[k] < 0 || rates[k] > 1 {
			return nil, fmt.Errorf("the mean reward of a prompt is %g, outside [%g, %g]: set advantage.range to what the reward can be",
				low+float64(rates[k]*(high-low)), low, high)
		}
	}
	f := fitBeta(rates)
	for k, g := range groups {
		w := math.Min(1/f.density(rates[k]), 1e6)
		for _, i := range g {
			out[i] = w * (out[i] - rates[k])
		}
	}
	return out, nil
}

type beta struct{ a, b float64 }

// fitBeta is BNPO's fit, by moments.
func fitBeta(rates []float64) beta {
	if len(rates) < 2 {
		return beta{1, 1}
	}
	m, d := mean(rates), deviation(rates, 1)
	v := float64(d * d)
	if v == 0 {
		return beta{1, 1}
	}
	n := float64(m*(1-m))/v - 1
	return beta{max(1+float64(n*m)/3, 1), max(1+float64(n*(1-m))/3, 1)}
}

// density is f(p), with p^0 = 1 at the ends.
func (f beta) density(p float64) float64 {
	if f.a == 1 && f.b == 1 {
		return 1
	}
	log := logGamma(f.a+f.b) - logGamma(f.a) - logGamma(f.b)
	for _, t := range [2][2]float64{{f.a - 1, p}, {f.b - 1, 1 - p}} {
		if t[0] > 0 {
			log += float64(t[0] * portable.Log(t[1]))
		}
	}
	return portable.Exp(log)
}

// logGamma is ln Γ(x) for x >= 1: Stirling's series from 10 on, and Γ(x) = Γ(x+n)/(x···(x+n-1)) below.
func logGamma(x float64) float64 {
	product := 1.0
	for x < 10 {
		product *= x
		x++
	}
	z := float64(1 / float64(x*x))
	series := 1.0 / 12
	power := z
	for _, c := range []float64{-1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360} {
		series += float64(c * power)
		power *= z
	}
	const halfLog2Pi = 0.91893853320467274178
	return float64((x-0.5)*portable.Log(x)) - x + halfLog2Pi + series/x - portable.Log(product)
}

// BetaOptions are the options of BNPO's rule.
type BetaOptions struct {
	Range [2]float64 `toml:"range" doc:"of beta: the least and the largest reward that a sample can have"`
}

// BetaRule is BNPO's.
var BetaRule = Rule{
	Name: "beta", Card: "Reward less its group's mean, over a Beta density fitted to the success rates of the batch (BNPO).",
	Paper: "BNPO (Xiao et al., 2025)", Formula: "(r - p) / f(p; α, β), p the group's success rate, f a Beta density fitted to the batch's rates", Cases: []string{"methods.adv_bnpo"},
	Company: InGroup, GroupMean: true, Scaled: true, Options: BetaOptions{},
	Takes: func(s Settings) [2]float64 { return s.Range },
	Check: func(s Settings, report func(key, problem, hint string)) {
		if s.Range[0] >= s.Range[1] {
			report("range", fmt.Sprintf("no reward lies between %g and %g", s.Range[0], s.Range[1]), "the least first, as in [0, 1]")
		}
	},
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		low, high := e.Range[0], e.Range[1]
		if low == high {
			low, high = 0, 1
		}
		return Beta(b.Groups, r, low, high)
	}),
}
