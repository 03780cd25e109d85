package loss

import (
	"fmt"
	"math"
)

// Objectives over the tokens of answers. With d = lp - old, r = e^d of a token, s the mean of
// d over an answer's tokens, A the token's advantage, w optional rollout weights:
//
//	ppo        max(-A·r, -A·clip(r)); where A < 0 at most -A·Dual (dual clip). GRPO, DAPO
//	           (High > Low), Dr.GRPO (by aggregation), RLOO, REINFORCE++ by their advantages
//	gspo       ppo with one ratio an answer, e^s; each token gets the gradient of its own
//	           log-probability (Zheng et al., 2025)
//	gspo-mean  the same with the gradient of the mean (EasyR1, OpenRLHF)
//	cispo      -clip(r)·A·lp, no gradient through the ratio (MiniMax-M1)
//	sapo       -A·4/τ·σ(τ·(r-1)), τ by the sign of A (Gao et al., 2025)
//	gpg        -A·lp
//	gmpo       -A·e^(mean of d, each cut in the direction of A), one number an answer
//
// d is cut to ±20 (gspo: at most 10), with no gradient beyond.
type TokenLoss struct {
	Objective string  `toml:"objective" enum:"ppo,gspo,gspo-mean,cispo,sapo,gpg,gmpo" doc:"the token objective"`
	Low       float64 `toml:"clip_low" range:"[0,inf)" doc:"how far a ratio may fall below 1"`
	High      float64 `toml:"clip_high" range:"[0,inf)" doc:"how far a ratio may rise above 1"`
	Dual      float64 `toml:"dual_clip" range:"[0,inf)" doc:"bound of the loss where the advantage is negative; 0: none"`
	TauPos    float64 `toml:"tau_pos" range:"(0,inf)" doc:"sapo's temperature where the advantage is positive"`
	TauNeg    float64 `toml:"tau_neg" range:"(0,inf)" doc:"and where it is negative"`
	Aggregate Aggregate

	ZeroIsPositive bool `toml:"-"` // sapo: A = 0 has TauPos (EasyR1)
}

// Tokens are what a token objective looks at: rows are answers.
type Tokens struct {
	LogProb, Old, Advantage, Mask [][]float64
	Weight                        [][]float64 // nil: 1
}

// TokenResult is a loss and its gradient by the log-probabilities.
type TokenResult struct {
	Loss    float64
	Grad    [][]float64
	Metrics map[string]float64
}

// farthest is where a log-ratio is cut.
const farthest = 20

// Of is the objective.
func (o TokenLoss) Of(t Tokens) (TokenResult, error) {
	if o.Objective == "gmpo" {
		return o.geometric(t), nil
	}
	w, err := o.Aggregate.Weights(t.Mask)
	if err != nil {
		return TokenResult{}, err
	}
	r := TokenResult{Grad: zeros(t.LogProb), Metrics: map[string]float64{}}
	moved, clipped, dual := zeros(t.LogProb), zeros(t.LogProb), zeros(t.LogProb)
	for i, lp := range t.LogProb {
		mean := answerMean(t, i)
		for k := range lp {
			d := lp[k] - t.Old[i][k]
			if moved[i][k] = -d; o.Objective != "gspo" {
				moved[i][k] = -cutLog(d, farthest)
			}
			if t.Mask[i][k] == 0 {
				continue
			}
			v := o.token(lp[k], d, mean, t.Advantage[i][k])
			weight := w[i][k]
			if t.Weight != nil {
				weight *= t.Weight[i][k]
			}
			r.Loss += v.value * weight
			r.Grad[i][k] += v.own * weight
			if v.shared != 0 {
				n := math.Max(sum(t.Mask[i]), 1)
				for j, on := range t.Mask[i] {
					r.Grad[i][j] += v.shared * weight * on / n
				}
			}
			clipped[i][k], dual[i][k] = v.clipped, v.dual
		}
	}
	r.Metrics["ppo_kl"], r.Metrics["clipped"], r.Metrics["clipped_dual"] = maskedMean(moved, t.Mask), maskedMean(clipped, t.Mask), maskedMean(dual, t.Mask)
	return r, nil
}

// answerMean is the mean log-ratio of an answer.
func answerMean(t Tokens, i int) float64 {
	s := 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			s += (t.LogProb[i][k] - t.Old[i][k]) * on
		}
	}
	return s / math.Max(sum(t.Mask[i]), 1)
}

// token is one token's loss, its slope by its own log-probability, and by the answer's mean.
type token struct{ value, own, shared, clipped, dual float64 }

func (o TokenLoss) token(lp, d, mean, a float64) token {
	switch o.Objective {
	case "gpg":
		return token{value: -a * lp, own: -a}
	case "cispo":
		r := math.Exp(cutLog(d, farthest))
		bound := math.Min(math.Max(r, 1-o.Low), 1+o.High)
		return token{value: -bound * a * lp, own: -bound * a, clipped: differs(r, bound)}
	case "sapo":
		tau := o.TauNeg
		if a > 0 || a == 0 && o.ZeroIsPositive {
			tau = o.TauPos
		}
		r := math.Exp(cutLog(d, farthest))
		g := sigmoid(tau * (r - 1))
		v := token{value: -a * g * 4 / tau}
		if math.Abs(d) <= farthest {
			v.own = -a * 4 * g * (1 - g) * r
		}
		return v
	case "gspo":
		v := o.clip(math.Min(mean, 10), a, mean <= 10)
		return v
	case "gspo-mean":
		v := o.clip(mean, a, true)
		v.own, v.shared = 0, v.own
		return v
	}
	return o.clip(cutLog(d, farthest), a, math.Abs(d) <= farthest)
}

func cutLog(d, most float64) float64 { return math.Min(math.Max(d, -most), most) }

func differs(x, y float64) float64 {
	if x != y {
		return 1
	}
	return 0
}

// clip is PPO's token at a log-ratio; live says whether a gradient passes.
func (o TokenLoss) clip(d, a float64, live bool) token {
	r := math.Exp(d)
	bound := math.Min(math.Max(r, 1-o.Low), 1+o.High)
	v := token{value: -a * r}
	if live {
		v.own = -a * r
	}
	if cut := -a * bound; cut > v.value {
		v = token{value: cut, clipped: 1}
	}
	if a < 0 && o.Dual > 0 && -a*o.Dual < v.value {
		v.value, v.own, v.dual = -a*o.Dual, 0, 1
	}
	return v
}

// geometric is GMPO (Zhao et al., 2025): bounds are on the logarithm, and every row counts.
func (o TokenLoss) geometric(t Tokens) TokenResult {
	r := TokenResult{Grad: zeros(t.LogProb), Metrics: map[string]float64{}}
	rows := float64(len(t.LogProb))
	high, low := zeros(t.LogProb), zeros(t.LogProb)
	for i, lp := range t.LogProb {
		n := sum(t.Mask[i]) + 1e-8
		log, advantage, weight := 0.0, 0.0, 0.0
		live := make([]float64, len(lp))
		for k, on := range t.Mask[i] {
			if on == 0 {
				continue
			}
			d, a := lp[k]-t.Old[i][k], t.Advantage[i][k]
			sign := 0.0
			switch {
			case a > 0:
				sign = 1
			case a < 0:
				sign = -1
			}
			cut := math.Min(math.Max(d, -o.Low), o.High)
			kept := sign * math.Min(sign*d, sign*cut)
			log += kept * on / n
			if sign*d <= sign*cut {
				live[k] = math.Abs(sign) * on / n
			}
			if d != cut && sign > 0 {
				high[i][k] = 1
			}
			if d != cut && sign < 0 {
				low[i][k] = 1
			}
			advantage += a * on / n
			if t.Weight != nil {
				weight += math.Log(t.Weight[i][k]+1e-10) * on / n
			}
		}
		v := -advantage * math.Exp(log) * math.Exp(weight) / rows
		r.Loss += v
		for k := range lp {
			r.Grad[i][k] = v * live[k]
		}
	}
	r.Metrics["clipped"], r.Metrics["clipped_low"] = maskedMean(high, t.Mask), maskedMean(low, t.Mask)
	return r
}

// Known says whether an objective exists.
func (o TokenLoss) Known() error {
	switch o.Objective {
	case "ppo", "gspo", "gspo-mean", "cispo", "sapo", "gpg", "gmpo":
		return nil
	}
	return fmt.Errorf("token objective %q is not known", o.Objective)
}
