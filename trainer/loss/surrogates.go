package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// What a token's loss is: a value, and its slopes.

// token is one token's loss, its slope by its own log-probability, and by the answer's mean
// log-ratio.
type token struct{ value, own, shared, clipped, dual float64 }

func (v token) times(w float64) token {
	v.value, v.own, v.shared = v.value*w, v.own*w, v.shared*w
	return v
}

func (v token) plus(x token) token {
	v.value, v.own, v.shared = v.value+x.value, v.own+x.own, v.shared+x.shared
	return v
}

// at is a token: its log-probability and log-ratio, its advantage, and where it stands.
type at struct {
	lp, d, a float64
	i, k     int
}

// answer is what a token knows of its answer: the mean log-ratio, and vespo's weight.
type answer struct{ mean, sequence float64 }

func (o TokenLoss) answer(t Tokens, i int) answer {
	x := answer{mean: answerMean(t, i)}
	if o.Objective == "vespo" {
		x.sequence = sequenceLog(t, i)
	}
	return x
}

// answerMean is the mean log-ratio of an answer.
func answerMean(t Tokens, i int) float64 {
	s := 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			s += float64((t.LogProb[i][k] - t.Old[i][k]) * on)
		}
	}
	return s / max(sum(t.Mask[i]), 1)
}

func (o TokenLoss) token(x at, of answer, b wholeBatch) token {
	switch o.Objective {
	case "gpg":
		return token{value: -x.a * x.lp, own: -x.a}
	case "vespo":
		phi := o.Vespo.weight(of.sequence, x.a)
		return token{value: -phi * x.a * x.lp, own: -phi * x.a}
	case "gspo":
		return o.clip(min(of.mean, 10), x.a, of.mean <= 10)
	case "clip-cov", "kl-cov":
		return o.covariant(x, b.chosen[x.i][x.k] != 0)
	}
	d, live := cutLog(x.d, farthest), math.Abs(x.d) <= farthest
	if o.SequenceRatio {
		d, live = cutLog(of.mean, farthest), math.Abs(of.mean) <= farthest
	}
	var v token
	switch o.Objective {
	case "cispo":
		r := portable.Exp(d)
		low, high := o.Bounds()
		bound := min(max(r, 1-low), 1+high)
		return token{value: -bound * x.a * x.lp, own: -bound * x.a, clipped: indicator(r != bound)}
	case "sapo":
		v = o.soft(d, x.a, live)
	default:
		v = o.clip(d, x.a, live)
	}
	if o.SequenceRatio {
		v.own, v.shared = 0, v.own
	}
	return v
}

func cutLog(d, most float64) float64 { return min(max(d, -most), most) }

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// clip is PPO's token at a log-ratio; live says whether a gradient passes.
func (o TokenLoss) clip(d, a float64, live bool) token {
	r := portable.Exp(d)
	within := o.Clipping.bounds()
	within.cap = o.RatioCap
	b := within.loss(a, r)
	v := token{value: b.value, clipped: indicator(b.clipped), dual: indicator(b.dual)}
	if live {
		v.own = b.slope * r
	}
	return v
}

// soft is SAPO's token: a sigmoid of the ratio in place of a clip.
func (o TokenLoss) soft(d, a float64, live bool) token {
	tau := o.TauNeg
	if a > 0 { // without advantage there is no loss, whatever side it is on
		tau = o.TauPos
	}
	r := portable.Exp(d)
	g := sigmoid(tau * (r - 1))
	v := token{value: -a * g * 4 / tau}
	if live {
		v.own = -a * 4 * g * (1 - g) * r
	}
	return v
}

// reference is a token's KL.
func (o TokenLoss) reference(lp, ref, d, mean float64) token {
	kl, slope := KL(o.KL.Estimator, lp, ref)
	if !o.KL.Corrected {
		return token{value: kl, own: slope}
	}
	if o.SequenceRatio {
		r := portable.Exp(cutLog(mean, farthest))
		return token{value: kl * r, own: slope * r, shared: kl * r}
	}
	r := portable.Exp(cutLog(d, farthest))
	return token{value: kl * r, own: (slope + kl) * r}
}
