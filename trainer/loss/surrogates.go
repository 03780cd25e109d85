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

// logRatio is what the ratio is of, the token's or its answer's mean; live says whether a gradient passes.
func (o TokenLoss) logRatio(x at, of answer) (d float64, live bool) {
	d = x.d
	if o.SequenceRatio {
		d = of.mean
	}
	return cutLog(d, farthest), math.Abs(d) <= farthest
}

// ofRatio moves the slope to the answer's mean where the ratio is the answer's.
func (o TokenLoss) ofRatio(v token) token {
	if o.SequenceRatio {
		v.own, v.shared = 0, v.own
	}
	return v
}

// weightOnly is CISPO's token: the clipped ratio is a weight without gradient.
func (o TokenLoss) weightOnly(d float64, x at) token {
	r := portable.Exp(d)
	low, high := o.Bounds()
	bound := min(max(r, 1-low), 1+high)
	return token{value: -bound * x.a * x.lp, own: -bound * x.a, clipped: indicator(r != bound)}
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
	kl, slope := o.KL.Token(lp, ref)
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
