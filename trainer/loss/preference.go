package loss

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: preferences between written answers. Of an answer, Δ is the log-probability of its tokens less that of the
// reference, w the better of a pair and l the worse, z = β(Δw - Δl), s the smoothing:
//
//	sigmoid    -(1-s) log σ(z) - s log σ(-z)                  DPO (Rafailov et al., 2023); with s > 0 cDPO
//	robust     (-(1-s) log σ(z) + s log σ(-z)) / (1-2s)       Chowdhury et al., 2024
//	hinge      max(0, 1 - z)                                  SLiC
//	ipo        (Δw - Δl - 1/2β)², Δ a mean over tokens        Azar et al., 2023; the mean is TRL's
//	exo        σ(z) log(σ(z)/(1-s)) + σ(-z) log(σ(-z)/s)      Ji et al., 2024; s = 0 counts as 0.001
//	nca        -log σ(βΔw) - ½ log σ(-βΔw) - ½ log σ(-βΔl)    Chen et al., 2024
//	sppo       (Δw - 1/2β)² + (Δl + 1/2β)²                    Wu et al., 2024, hard labels
//	apo-zero   1 - σ(βΔw) + σ(βΔl)                            D'Oosterlinck et al., 2024
//	apo-down   σ(βΔw) + 1 - σ(z)                              the same
//	bco        -log σ(βΔw - δ) - log σ(δ - βΔl)               Jung et al., 2024
//
// δ is the mean of all batches' mean βΔ, the present one's among them. The loss is a mean over pairs,
//
//	weight · form + quality · bco + imitate · (mean over tokens of -log p of the better answers)
//
// so that MPO (Wang et al., 2024) is weight 0.8, quality 0.2, imitate 1, and RPO (Pang et al., 2024; TRL's rpo_alpha)
// is imitate above 0. KTO (Ethayarajh et al., 2024) has no pairs: with κ = max(0, mean Δ of answers to other
// questions), which has no gradient,
//
//	desirable · (1 - σ(β(Δ - κ)))  of good answers,   undesirable · (1 - σ(β(κ - Δ)))  of bad ones
//
// Invariants (tests): TRL's own functions give these values and gradients; a policy that is its reference has log 2
// with the form sigmoid.
type Preference struct {
	PairForm
	Beta float64 `toml:"beta" range:"(0,inf)" doc:"how much a log-probability counts; large values stay near the reference"`
	PairWeights
	UnpairedOptions
}

// PairForm is the loss of a pair.
type PairForm struct {
	Form string `toml:"form" enum:"sigmoid,robust,hinge,ipo,exo,nca,sppo,apo-zero,apo-down,bco" doc:"what is made of a pair: sigmoid (DPO, and cDPO with smoothing), robust, hinge (SLiC), ipo, exo, nca, sppo, apo-zero, apo-down, bco"`
}

// PairWeights are the terms of a pair's loss.
type PairWeights struct {
	Smoothing float64 `toml:"smoothing" range:"[0,0.5)" doc:"of sigmoid (cDPO), robust and exo: the share of pairs that may be the wrong way round"`
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"of the form (MPO: 0.8)"`
	Quality   float64 `toml:"quality" range:"[0,inf)" doc:"weight of bco beside the form, by which each answer is good or bad in itself (MPO: 0.2)"`
	Imitate   float64 `toml:"imitate" range:"[0,inf)" doc:"weight of the better answers' likelihood (MPO: 1; RPO's alpha)"`
}

// UnpairedOptions are the options of answers that are good or bad, each by itself.
type UnpairedOptions struct {
	Desirable   float64 `toml:"desirable" range:"(0,inf)" doc:"weight of good answers"`
	Undesirable float64 `toml:"undesirable" range:"(0,inf)" doc:"weight of bad ones"`
	Mismatched  bool    `toml:"mismatched" doc:"answers are asked against other questions of the batch for the distance that good and bad ones are measured from; false: that is 0 (APO-zero, unpaired)"`
}

// DefaultPreference is DPO as TRL has it.
func DefaultPreference() Preference {
	return Preference{PairForm{"sigmoid"}, 0.1, PairWeights{Weight: 1}, UnpairedOptions{Desirable: 1, Undesirable: 1, Mismatched: true}}
}

// Check reports options that would do nothing, or less than they say.
func (o Preference) Check(report func(key, problem, hint string)) {
	switch {
	case o.Weight == 0 && o.Quality == 0:
		report("weight", "no pair is compared", "a weight, or quality, above 0; objective = \"sft\" imitates alone")
	case o.Smoothing > 0 && !slices.Contains([]string{"sigmoid", "robust", "exo"}, o.Form):
		report("smoothing", fmt.Sprintf("form %q has no place for it", o.Form), `form = "sigmoid", "robust" or "exo"`)
	}
}

// Shifts reports whether δ is read.
func (o Preference) Shifts() bool { return o.Form == "bco" && o.Weight > 0 || o.Quality > 0 }

// Answered are answers with the log-probabilities of their trained tokens, added up.
type Answered struct {
	Own, Reference []float64
	Tokens         []int
}

// Shift is δ: the mean of the batches that were seen.
type Shift struct{ Mean, Batches float64 }

// with is the mean with one more.
func (s *Shift) with(x float64) float64 {
	s.Batches++
	s.Mean += (x - s.Mean) / s.Batches
	return s.Mean
}

// PreferenceResult is the loss, with its gradient at each token of an answer: all have the same.
type PreferenceResult struct {
	Loss, Accuracy, Margin, Better, Worse, NLL, Distance float64
	Grad                                                 []float64
}

// Pairs is the loss of pairs (better, worse). shift takes part where Shifts, and is moved.
func (o Preference) Pairs(a Answered, pairs [][2]int, shift *Shift) (out PreferenceResult, err error) {
	form, ok := o.form(o.Form)
	if !ok {
		return out, fmt.Errorf("preference: form %q is not known", o.Form)
	}
	quality, _ := o.form("bco")
	out.Grad = make([]float64, len(a.Own))
	n, tokens, rewards := float64(len(pairs)), 0.0, 0.0
	for _, p := range pairs {
		tokens += float64(a.Tokens[p[0]])
		rewards += (float64(o.Beta*a.over(p[0])) + float64(o.Beta*a.over(p[1]))) / (2 * n)
	}
	delta := 0.0
	if o.Shifts() {
		delta = shift.with(rewards)
	}
	add := func(f pairLoss, weight float64, p [2]int, each [2]float64) {
		value, byBetter, byWorse := f(float64(a.over(p[0])*each[0]), float64(a.over(p[1])*each[1]), delta)
		out.Loss += weight * value / n
		out.Grad[p[0]] += float64(weight*byBetter*each[0]) / n
		out.Grad[p[1]] += float64(weight*byWorse*each[1]) / n
	}
	for _, p := range pairs {
		each := [2]float64{1, 1}
		if o.Form == "ipo" { // a mean over tokens
			each = [2]float64{1 / float64(a.Tokens[p[0]]), 1 / float64(a.Tokens[p[1]])}
		}
		add(form, o.Weight, p, each)
		if o.Quality > 0 {
			add(quality, o.Quality, p, [2]float64{1, 1})
		}
		better, worse := float64(o.Beta*a.over(p[0])), float64(o.Beta*a.over(p[1]))
		out.Better, out.Worse, out.Margin = out.Better+better/n, out.Worse+worse/n, out.Margin+(better-worse)/n
		if better > worse {
			out.Accuracy += 1 / n
		}
		out.NLL -= a.Own[p[0]] / tokens
		out.Grad[p[0]] -= o.Imitate / tokens
	}
	out.Loss += float64(o.Imitate * out.NLL)
	return out, nil
}

// over is an answer's log-ratio to the reference.
func (a Answered) over(i int) float64 { return a.Own[i] - a.Reference[i] }

// Good is the loss of answers that are good or bad. others are answers to other questions.
func (o Preference) Good(a Answered, good []bool, others Answered) (out PreferenceResult) {
	for i := range others.Own {
		out.Distance += others.over(i) / float64(len(others.Own))
	}
	out.Distance = max(0, out.Distance)
	out.Grad = make([]float64, len(a.Own))
	n, goods := float64(len(a.Own)), 0.0
	for _, g := range good {
		if g {
			goods++
		}
	}
	for i, g := range good {
		sign, weight := 1.0, o.Desirable
		if !g {
			sign, weight = -1, o.Undesirable
		}
		far := sigmoid(-sign * o.Beta * (a.over(i) - out.Distance)) // 1 - σ, without cancelling terms
		out.Loss += weight * far / n
		out.Grad[i] = -sign * weight * o.Beta * far * (1 - far) / n
		reward := o.Beta * a.over(i)
		if g {
			out.Better += reward / goods
		} else {
			out.Worse += reward / (n - goods)
		}
		if g == (a.over(i) > out.Distance) {
			out.Accuracy += 1 / n
		}
	}
	if goods > 0 && goods < n {
		out.Margin = out.Better - out.Worse
	}
	return out
}

// A pairLoss is a pair's loss with its slopes at Δ of the better answer and of the worse.
type pairLoss func(better, worse, delta float64) (value, byBetter, byWorse float64)

// form is the loss of a name.
func (o Preference) form(name string) (pairLoss, bool) {
	b, s := o.Beta, o.Smoothing
	apart := func(f func(z float64) (value, slope float64)) pairLoss { // of the difference alone
		return func(w, l, _ float64) (float64, float64, float64) {
			value, slope := f(b * (w - l))
			return value, b * slope, -b * slope
		}
	}
	switch name {
	case "sigmoid":
		return apart(func(z float64) (float64, float64) {
			return float64((1-s)*softplus(-z)) + float64(s*softplus(z)), float64(s*sigmoid(z)) - float64((1-s)*sigmoid(-z))
		}), true
	case "robust":
		return apart(func(z float64) (float64, float64) {
			return (float64((1-s)*softplus(-z)) - float64(s*softplus(z))) / (1 - 2*s), -(float64((1-s)*sigmoid(-z)) + float64(s*sigmoid(z))) / (1 - 2*s)
		}), true
	case "hinge":
		return apart(func(z float64) (float64, float64) {
			if z >= 1 {
				return 0, 0
			}
			return 1 - z, -1
		}), true
	case "exo":
		return apart(func(z float64) (float64, float64) { return reverseKL(z, s) }), true
	case "ipo":
		return func(w, l, _ float64) (float64, float64, float64) {
			d := w - l - 1/(2*b)
			return d * d, 2 * d, -2 * d
		}, true
	case "nca":
		return func(w, l, _ float64) (float64, float64, float64) {
			return softplus(-b*w) + float64(0.5*softplus(b*w)) + float64(0.5*softplus(b*l)),
				b * (float64(0.5*sigmoid(b*w)) - sigmoid(-b*w)), 0.5 * b * sigmoid(b*l)
		}, true
	case "sppo":
		return func(w, l, _ float64) (float64, float64, float64) {
			x, y := w-0.5/b, l+0.5/b
			return float64(x*x) + float64(y*y), 2 * x, 2 * y
		}, true
	case "apo-zero":
		return func(w, l, _ float64) (float64, float64, float64) {
			x, y := sigmoid(b*w), sigmoid(b*l)
			return 1 - x + y, -b * x * (1 - x), b * y * (1 - y)
		}, true
	case "apo-down":
		return func(w, l, _ float64) (float64, float64, float64) {
			x, y := sigmoid(b*w), sigmoid(b*(w-l))
			return x + 1 - y, b * (float64(x*(1-x)) - float64(y*(1-y))), b * y * (1 - y)
		}, true
	case "bco":
		return func(w, l, delta float64) (float64, float64, float64) {
			x, y := float64(b*w)-delta, float64(b*l)-delta
			return softplus(-x) + softplus(y), -b * sigmoid(-x), b * sigmoid(y)
		}, true
	}
	return nil, false
}

// reverseKL is the divergence of (σ(z), σ(-z)) from (1-s, s), and its slope.
func reverseKL(z, s float64) (value, slope float64) {
	if s == 0 {
		s = 1e-3
	}
	p, q := sigmoid(z), sigmoid(-z)
	x, y := -softplus(-z)-portable.Log(1-s), -softplus(z)-portable.Log(s)
	value = float64(p*x) + float64(q*y)
	slope = p * q * (x - y)
	return value, slope
}

// words are the options of a loss over judged answers.
func (o Preference) words(pairs bool) string {
	if !pairs {
		return fmt.Sprintf(", β %v, good answers × %v, bad ones × %v", o.Beta, o.Desirable, o.Undesirable)
	}
	s := fmt.Sprintf(", %v × %s, β %v", o.Weight, o.Form, o.Beta)
	if o.Smoothing > 0 {
		s += fmt.Sprintf(", smoothed by %v", o.Smoothing)
	}
	if o.Quality > 0 {
		s += fmt.Sprintf(", + %v × bco", o.Quality)
	}
	if o.Imitate > 0 {
		s += fmt.Sprintf(", + %v × the better answer's likelihood", o.Imitate)
	}
	return s
}

// KTOObjective is KTO.
var KTOObjective = Objective{
	Name: "kto", Card: "Answers of a file's rows that are good or bad, each by itself (KTO; rollout.lessons, loss.preference).",
	Paper: "KTO (Ethayarajh et al., 2024)", Formula: "1 - σ(β(Δ - κ)) of good answers, 1 - σ(β(κ - Δ)) of bad ones", Cases: []string{"methods.loss_kto"},
	Tokens: &Form{
		Learns: JudgedAnswers, Needs: Reference,
		Options: struct {
			UnpairedOptions
			LessonOptions
		}{},
		Words:   func(o Options) string { return o.Preference.words(false) },
		Numbers: []string{"accuracy", "margin", "chosen", "rejected", "distance"},
	},
}
