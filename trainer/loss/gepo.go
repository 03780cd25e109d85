package loss

import "github.com/darkroom-rl/darkroom/portable"

// GEPO (Zhang et al., 2025; HeteroRL): an answer is compared with its group's expectation, so that one stale answer's
// small q moves nobody far,
//
//	p = e^(mean lp)   q = e^(mean old)   w = p / (Σ q²/Σ q over the group)
//	max(-A·w, -A·clip(w)), one number an answer, the mean over answers
//
// A is the mean of the answer's advantages, and every row counts, also those without tokens. Upstream's sums go over
// the rows of a device, which hold one group in its scripts; here they go over the group (Tokens.Group). Rollout
// weights enter as their geometric mean, as in GMPO.
//
// Right after a roll w is q over the group's expectation and not 1, so that likely answers count for more: the one
// objective that does not begin as a plain policy gradient.

func (o TokenLoss) groupExpectation(t Tokens) TokenResult {
	r := TokenResult{Grad: zeros(t.LogProb), Metrics: map[string]float64{}}
	rows := float64(len(t.LogProb))
	moved, clipped := zeros(t.LogProb), zeros(t.LogProb)
	expected := expectations(t)
	within := o.Clipping.bounds()
	within.cap = o.RatioCap
	for i, lp := range t.LogProb {
		n := max(sum(t.Mask[i]), 1)
		now, advantage := 0.0, 0.0
		for k, on := range t.Mask[i] {
			if on != 0 {
				now += float64(lp[k] * on / n)
				advantage += float64(t.Advantage[i][k] * on / n)
				moved[i][k] = t.Old[i][k] - lp[k]
			}
		}
		w := portable.Exp(now) / expected[i]
		b := within.loss(advantage, w)
		scale := answerWeight(t, i, n) / rows
		r.Loss += float64(b.value * scale)
		for k, on := range t.Mask[i] {
			r.Grad[i][k] = float64(b.slope*w) * scale * on / n
			clipped[i][k] = indicator(b.clipped)
		}
	}
	r.Metrics["ppo_kl"], r.Metrics["clipped"] = maskedMean(moved, t.Mask), maskedMean(clipped, t.Mask)
	return r
}

// expectations are Σ q²/Σ q of every answer's group.
func expectations(t Tokens) []float64 {
	group := func(i int) int {
		if t.Group == nil {
			return 0
		}
		return t.Group[i]
	}
	sums, squares := map[int]float64{}, map[int]float64{}
	for i, old := range t.Old {
		mean := 0.0
		for k, on := range t.Mask[i] {
			if on != 0 {
				mean += float64(old[k] * on / max(sum(t.Mask[i]), 1))
			}
		}
		q := portable.Exp(mean)
		sums[group(i)] += q
		squares[group(i)] += float64(q * q)
	}
	out := make([]float64, len(t.Old))
	for i := range out {
		out[i] = squares[group(i)] / sums[group(i)]
	}
	return out
}

// answerWeight is the geometric mean of an answer's rollout weights, over n.
func answerWeight(t Tokens, i int, n float64) float64 {
	if t.Weight == nil {
		return 1
	}
	log := 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			log += portable.Log(t.Weight[i][k]+1e-10) * on / n
		}
	}
	return portable.Exp(log)
}

// GEPOObjective is HeteroRL's.
var GEPOObjective = Objective{
	Name: "gepo", Card: "The clipped ratio of an answer to what its group was expected to be, one number a sequence, for rollouts that are stale (GEPO).",
	Paper: "GEPO (Zhang et al., 2025; HeteroRL)", Formula: "clip, of p / (Σ q²/Σ q over the group), p and q the geometric means of an answer's probabilities, new and old", Cases: []string{"methods.loss_gepo"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | OneNumber, Options: Clipping{}, Words: rangeWords,
		Whole: TokenLoss.groupExpectation,
	},
}
