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

func (o Covariance) check(objective string, report func(key, problem, hint string)) {
	if objective == "clip-cov" && o.Low >= o.High {
		report("covariance.low", fmt.Sprintf("no covariance lies above %g and below %g", o.Low, o.High), "1 and 5 are usual")
	}
}

// place is a token of an answer.
type place struct{ i, k int }

// chosen marks the tokens that are left out or pulled back.
func (o TokenLoss) chosen(t Tokens) [][]float64 {
	if o.Objective != "clip-cov" && o.Objective != "kl-cov" {
		return nil
	}
	out, cov := zeros(t.Mask), covariances(t)
	var all, among []place
	for i, m := range t.Mask {
		for k, on := range m {
			if on == 0 {
				continue
			}
			all = append(all, place{i, k})
			d := cutLog(t.LogProb[i][k]-t.Old[i][k], farthest)
			free := o.clip(d, t.Advantage[i][k], true).clipped == 0
			if o.Objective == "kl-cov" || free && cov[i][k] > o.Cov.Low && cov[i][k] < o.Cov.High {
				among = append(among, place{i, k})
			}
		}
	}
	slices.SortStableFunc(among, func(x, y place) int {
		if o.Objective == "kl-cov" {
			return cmp.Compare(cov[y.i][y.k], cov[x.i][x.k])
		}
		return cmp.Compare(t.Draw[x.i][x.k], t.Draw[y.i][y.k])
	})
	n := max(int(o.Cov.Share*float64(len(all))), 1)
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

// covariant is one token's loss.
func covariant(o TokenLoss, x at, _ answer, b wholeBatch) token {
	chosen := b.chosen[x.i][x.k] != 0
	d, live := cutLog(x.d, farthest), math.Abs(x.d) <= farthest
	if o.Objective == "clip-cov" {
		if chosen {
			return token{clipped: 1}
		}
		v := o.clip(d, x.a, live)
		v.clipped = 0 // the share that covariance left out is what is counted
		return v
	}
	v := token{value: -x.a * portable.Exp(d)}
	if live {
		v.own = v.value
	}
	if chosen {
		v.value += float64(o.Cov.Weight * math.Abs(x.d))
		v.own += float64(o.Cov.Weight * signOf(x.d))
		v.clipped = 1
	}
	return v
}
