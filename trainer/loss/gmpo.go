package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// GMPO (Zhao et al., 2025): the geometric mean of an answer's ratios,
//
//	-A·e^(mean of c), c = s·min(s·d, s·clip(d, -low, high)), s = sign A
//
// one number an answer. The bounds are on the logarithm, A is the mean of the answer's
// advantages, and every row counts, also those without tokens (verl). Rollout weights enter
// as their geometric mean.

func (o TokenLoss) geometric(t Tokens) TokenResult {
	r := TokenResult{Grad: zeros(t.LogProb), Metrics: map[string]float64{}}
	rows := float64(len(t.LogProb))
	moved, above, below := zeros(t.LogProb), zeros(t.LogProb), zeros(t.LogProb)
	low, high := o.Bounds()
	for i, lp := range t.LogProb {
		n := sum(t.Mask[i]) + 1e-8
		log, advantage := 0.0, 0.0
		live := make([]float64, len(lp))
		for k, on := range t.Mask[i] {
			if on == 0 {
				continue
			}
			d, a := lp[k]-t.Old[i][k], t.Advantage[i][k]
			moved[i][k] = -d
			sign := signOf(a)
			cut := min(max(d, -low), high)
			log += sign * min(sign*d, sign*cut) * on / n
			if sign*d <= sign*cut {
				live[k] = math.Abs(sign) * on / n
			}
			if d != cut && sign > 0 {
				above[i][k] = 1
			}
			if d != cut && sign < 0 {
				below[i][k] = 1
			}
			advantage += a * on / n
		}
		v := -advantage * portable.Exp(log) * answerWeight(t, i, n) / rows
		r.Loss += v
		for k := range lp {
			r.Grad[i][k] = v * live[k]
		}
	}
	r.Metrics["ppo_kl"], r.Metrics["clipped"], r.Metrics["clipped_low"] = maskedMean(moved, t.Mask), maskedMean(above, t.Mask), maskedMean(below, t.Mask)
	return r
}

func signOf(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// GMPOObjective is the geometric mean.
var GMPOObjective = Objective{
	Name: "gmpo", Card: "The geometric mean of clipped ratios, one number a sequence (GMPO).",
	Paper: "GMPO (Zhao et al., 2025)", Formula: "-A·e^(mean over tokens of the clipped lp - old)", Cases: []string{"vlm.loss_gmpo"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | OneNumber | OpenRange, Options: ClipBounds{}, Words: rangeWords,
		Whole: TokenLoss.geometric,
	},
}
