package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// A token's loss: a value, and its slopes.

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

// answer has a token's facts about its answer: the mean log-ratio, and vespo's weight.
type answer struct{ mean, sequence float64 }

func answerOf(t Tokens, i int, f Form) answer {
	x := answer{mean: answerMean(t, i)}
	if f.Has(OwnCorrection) {
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

// logRatio is the log of the ratio, the token's or its answer's mean; live says whether a gradient passes.
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

// GSPOObjective is Qwen's, as verl has it.
var GSPOObjective = Objective{
	Name: "gspo", Card: "One clipped ratio a sequence, the mean over its tokens, of which each has its own gradient (GSPO; verl).",
	Paper: "GSPO (Qwen, 2025)", Formula: "clip, of e^(mean over tokens of lp - old), each token with its own gradient", Cases: []string{"vlm.loss_gspo", "vlm.loss_easyr1"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | RawChange, Options: Clipping{}, Words: rangeWords,
		Token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			return o.clip(min(of.mean, 10), x.a, of.mean <= 10)
		},
	},
}

// GSPOMeanObjective is GSPO with the gradient of the mean.
var GSPOMeanObjective = Objective{
	Name: "gspo-mean", Card: "gspo with the gradient of the mean (EasyR1, OpenRLHF, TRL).",
	Paper: "GSPO (EasyR1, OpenRLHF, TRL)", Formula: "the same, with the gradient of the mean", Cases: []string{"vlm.loss_easyr1", "vlm.loss_openrlhf"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | AnswerRatio, Options: Clipping{}, Words: rangeWords,
		As: func(o TokenLoss) TokenLoss {
			o.Objective, o.SequenceRatio = ClipObjective.Name, true
			return o
		},
	},
}

// LUSPOObjective is GSPO by length.
var LUSPOObjective = Objective{
	Name: "luspo", Card: "gspo-mean whose sequences weigh by their length (LUSPO).",
	Paper: "LUSPO", Formula: "gspo-mean, summed over the tokens of an answer", Cases: []string{"vlm.loss_trl"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | AnswerRatio, Options: Clipping{}, Words: rangeWords,
		As: func(o TokenLoss) TokenLoss {
			o.Objective, o.SequenceRatio, o.Aggregate = ClipObjective.Name, true, Aggregate{Mode: "seq-mean-token-sum", AllRows: true}
			return o
		},
	},
}

// CISPOObjective is MiniMax's.
var CISPOObjective = Objective{
	Name: "cispo", Card: "The clipped ratio as a weight without gradient (CISPO).",
	Paper: "CISPO (MiniMax, 2025)", Formula: "-A·clip(ratio)·lp, clip(ratio) without gradient", Cases: []string{"vlm.loss_cispo", "vlm.loss_easyr1", "vlm.loss_trl"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | AnswerRatio | OpenRange, Options: ClipBounds{}, Words: rangeWords,
		Token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, _ := o.logRatio(x, of)
			return o.weightOnly(d, x)
		},
	},
}

// SAPOOptions are the options of SAPO alone.
type SAPOOptions struct {
	TauPos float64 `toml:"tau_pos" range:"(0,inf)" doc:"of sapo: temperature where the advantage is positive"`
	TauNeg float64 `toml:"tau_neg" range:"(0,inf)" doc:"and where it is negative"`
}

// SAPOObjective is Qwen's sigmoid.
var SAPOObjective = Objective{
	Name: "sapo", Card: "A sigmoid of the ratio in place of the clip (SAPO).",
	Paper: "SAPO (Qwen, 2025)", Formula: "-A·σ(τ(ratio - 1))·4/τ", Cases: []string{"vlm.loss_sapo", "vlm.loss_easyr1", "vlm.loss_trl"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | AnswerRatio, Options: SAPOOptions{},
		Token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, live := o.logRatio(x, of)
			return o.ofRatio(o.soft(d, x.a, live))
		},
	},
}

// GPGObjective is REINFORCE's.
var GPGObjective = Objective{
	Name: "gpg", Card: "The log-probability times the advantage, without a ratio (GPG, REINFORCE).",
	Paper: "GPG (Chu et al., 2025), REINFORCE", Formula: "-A·lp", Cases: []string{"vlm.loss_gpg", "vlm.loss_reinforce"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages,
		Token: func(_ TokenLoss, x at, _ answer, _ wholeBatch) token {
			return token{value: -x.a * x.lp, own: -x.a}
		},
	},
}
