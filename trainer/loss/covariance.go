package loss

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Entropy collapses through the few tokens whose log-probability and advantage move
// together (Cui et al., 2025). With cov = (A - mean A)·(lp - mean lp) over all tokens,
//
//	clip-cov  ppo without a random Share of all tokens among those with Low < cov < High that
//	          the clip leaves alone; left-out tokens still count in the mean
//	kl-cov    -A·r without a clip; the Share of tokens with the largest cov has Weight·|d| added
//
// At least one token is chosen. Which of clip-cov's is drawn outside: the eligible tokens with
// the least numbers are left out, so that a run can be repeated (upstream: torch.randperm).

// Covariance chooses tokens.
type Covariance struct {
	Share  float64 `toml:"share" range:"(0,1]" doc:"of all tokens that are chosen"`
	Low    float64 `toml:"low" doc:"clip-cov: tokens with a covariance above this"`
	High   float64 `toml:"high" doc:"clip-cov: and below this"`
	Weight float64 `toml:"weight" range:"[0,inf)" doc:"kl-cov: of the pull back to the old policy"`
}

// DefaultCovariance is the published choice; verl falls back to Weight 1.
func DefaultCovariance() Covariance { return Covariance{Share: 2e-4, Low: 1, High: 5, Weight: 1} }

func (o Covariance) check(report func(key, problem, hint string)) {
	if o.Low >= o.High {
		report("covariance.low", fmt.Sprintf("no covariance lies above %g and below %g", o.Low, o.High), "1 and 5 are usual")
	}
}

// place is a token of an answer.
type place struct{ i, k int }

// leftOut marks the tokens that clip-cov leaves out.
func leftOut(o TokenLoss, t Tokens) [][]float64 {
	cov := covariances(t)
	among := t.places(func(p place) bool {
		d := cutLog(t.LogProb[p.i][p.k]-t.Old[p.i][p.k], farthest)
		free := o.clip(d, t.Advantage[p.i][p.k], true).clipped == 0
		return free && cov[p.i][p.k] > o.Cov.Low && cov[p.i][p.k] < o.Cov.High
	})
	slices.SortStableFunc(among, func(x, y place) int { return cmp.Compare(t.Draw[x.i][x.k], t.Draw[y.i][y.k]) })
	return o.chosen(t, among)
}

// pulledBack marks the tokens that kl-cov pulls back.
func pulledBack(o TokenLoss, t Tokens) [][]float64 {
	cov := covariances(t)
	among := t.places(func(place) bool { return true })
	slices.SortStableFunc(among, func(x, y place) int { return cmp.Compare(cov[y.i][y.k], cov[x.i][x.k]) })
	return o.chosen(t, among)
}

// places are the tokens that count and of which something is so.
func (t Tokens) places(is func(place) bool) (all []place) {
	for i, m := range t.Mask {
		for k, on := range m {
			if p := (place{i, k}); on != 0 && is(p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// chosen marks the first of some tokens, a share of all.
func (o TokenLoss) chosen(t Tokens, among []place) [][]float64 {
	out := zeros(t.Mask)
	n := max(int(o.Cov.Share*float64(len(t.places(func(place) bool { return true })))), 1)
	for _, p := range among[:min(n, len(among))] {
		out[p.i][p.k] = 1
	}
	return out
}

func covariances(t Tokens) [][]float64 {
	cov := zeros(t.Mask)
	a, lp := maskedMean(t.Advantage, t.Mask), maskedMean(t.LogProb, t.Mask)
	for i, m := range t.Mask {
		for k := range m {
			cov[i][k] = (t.Advantage[i][k] - a) * (t.LogProb[i][k] - lp)
		}
	}
	return cov
}

// clipCov is one token's loss.
func clipCov(o TokenLoss, x at, _ answer, b wholeBatch) token {
	if b.chosen[x.i][x.k] != 0 {
		return token{clipped: 1}
	}
	v := o.clip(cutLog(x.d, farthest), x.a, math.Abs(x.d) <= farthest)
	v.clipped = 0 // the share that covariance left out is counted
	return v
}

// klCov is one token's loss.
func klCov(o TokenLoss, x at, _ answer, b wholeBatch) token {
	v := token{value: -x.a * portable.Exp(cutLog(x.d, farthest))}
	if math.Abs(x.d) <= farthest {
		v.own = v.value
	}
	if b.chosen[x.i][x.k] != 0 {
		v.value += float64(o.Cov.Weight * math.Abs(x.d))
		v.own += float64(o.Cov.Weight * signOf(x.d))
		v.clipped = 1
	}
	return v
}

// CovarianceOptions are the options of both.
type CovarianceOptions struct {
	Cov Covariance `toml:"covariance"`
}

// ClipCovObjective is Clip-Cov.
var ClipCovObjective = Objective{
	Name: "clip-cov", Card: "The clipped ratio without some tokens whose probability and advantage move together (Clip-Cov).",
	Paper: "Clip-Cov (Cui et al., 2025)", Formula: "clip, without a random share of the tokens with low < (A - mean A)(lp - mean lp) < high",
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | TokenDraws,
		Options: struct {
			ClipBounds
			CovarianceOptions
		}{},
		Words: rangeWords, Token: clipCov, Choose: leftOut,
		Refuse: func(o TokenLoss, report func(key, problem, hint string)) { o.Cov.check(report) },
	},
}

// KLCovObjective is KL-Cov.
var KLCovObjective = Objective{
	Name: "kl-cov", Card: "No clip; the tokens whose probability and advantage move together most are pulled back (KL-Cov).",
	Paper: "KL-Cov (Cui et al., 2025)", Formula: "-A·ratio; the share of tokens with the largest covariance has weight·|lp - old| added",
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne, Options: CovarianceOptions{},
		Token: klCov, Choose: pulledBack,
	},
}
