package loss

import (
	"math"
	"slices"
)

// Which tokens the policy's part looks at. Left-out tokens still count in the mean, and keep
// their KL.
//
//	Drift    answers with a negative advantage that the policy has left, the mean of
//	         sampler - lp above Drift, are left out (DeepSeek-V3.2; TRL's off-policy mask)
//	Entropy  only this share of tokens with the highest entropy is kept (Wang et al., 2025:
//	         the 80/20 rule; TRL's top_entropy_quantile). The bound is a quantile in float32
//	         with linear interpolation, as torch takes it

// Keep leaves tokens out.
type Keep struct {
	Drift   float64 `toml:"drift" range:"[0,inf)" of:"tokens" doc:"largest mean log-ratio of sampler to policy of an answer with a negative advantage; 0: any"`
	Entropy float64 `toml:"entropy_share" range:"[0,1]" of:"tokens" doc:"share of the tokens with the highest entropy; 0 or 1: all"`
}

func (o Keep) byEntropy() bool { return o.Entropy > 0 && o.Entropy < 1 }

// mask is 1 where a token is kept.
func (o Keep) mask(t Tokens) [][]float64 {
	keep := zeros(t.Mask)
	least := math.Inf(-1)
	if o.byEntropy() {
		least = o.leastEntropy(t)
	}
	for i, m := range t.Mask {
		drifted := o.Drift > 0 && o.drift(t, i) > o.Drift
		for k, on := range m {
			if on == 0 || drifted && t.Advantage[i][k] < 0 || o.byEntropy() && t.Entropy[i][k]*on < least {
				continue
			}
			keep[i][k] = 1
		}
	}
	return keep
}

// drift is the mean of sampler - lp over an answer's tokens.
func (o Keep) drift(t Tokens, i int) float64 {
	sampler := t.Sampler
	if sampler == nil {
		sampler = t.Old
	}
	total := 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			total += float64((sampler[i][k] - t.LogProb[i][k]) * on)
		}
	}
	return total / max(sum(t.Mask[i]), 1)
}

// leastEntropy is the quantile that kept tokens reach.
func (o Keep) leastEntropy(t Tokens) float64 {
	var all []float32
	for i, m := range t.Mask {
		for k, on := range m {
			if on != 0 {
				all = append(all, float32(t.Entropy[i][k]))
			}
		}
	}
	if len(all) == 0 {
		return math.Inf(-1)
	}
	slices.Sort(all)
	rank := float32(float32(1-o.Entropy) * float32(len(all)-1))
	below := int(rank)
	a, b, part := all[below], all[min(below+1, len(all)-1)], rank-float32(below)
	if part < 0.5 {
		return float64(a + float32(part*(b-a)))
	}
	return float64(b - float32((b-a)*(1-part)))
}
