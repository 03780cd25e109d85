package loss

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/portable"
)

// Correction is an objective's treatment of a sampler that disagrees with the trainer: [loss.correction] of a file.
// From the log-probabilities of both it makes the weights of tokens, and the mask without the tokens that are left
// out.
//
//	weights = "token", "sequence"   verl's, with its cut of e^d from above
//	least, drop, "geometric"        TRL's and OpenRLHF's, e^d between two bounds
//
// Invariants (tests): where both agree nothing changes, in every setting; a token that is left out has neither a
// weight nor a place in the mean.
type Correction struct {
	Weights   string  `toml:"weights" enum:"none,token,sequence,geometric" doc:"what has a weight: the ratio of the trainer's probability to the sampler's, of a token or of its answer; geometric: a token's, in answers whose mean is within the bounds"`
	Threshold float64 `toml:"threshold" range:"(0,inf)" doc:"largest weight"`
	Least     float64 `toml:"least" range:"[0,inf)" doc:"smallest weight; 0: any"`
	Drop      bool    `toml:"drop" doc:"what is outside of the bounds has weight 0, not that of the bound"`
	Normalise bool    `toml:"normalise" doc:"make the weights' mean 1"`
	Reject    string  `toml:"reject" doc:"what is left out, such as token_k1,seq_mean_k3; empty: nothing"`
	Bounds    string  `toml:"bounds" doc:"of each rule, such as 0.5_2.0,0.05"`
}

// DefaultCorrection does nothing; turned on, it cuts at the 2 that verl and TRL cut at.
func DefaultCorrection() Correction { return Correction{Weights: "none", Threshold: 2} }

// On says whether anything is corrected.
func (o Correction) On() bool { return o.Reject != "" || o.weighs() }

func (o Correction) weighs() bool { return o.Weights != "none" && o.Weights != "" }

// twoBounds says whether weights are TRL's and OpenRLHF's.
func (o Correction) twoBounds() bool { return o.Least > 0 || o.Drop || o.level().Bounded }

// A CorrectionLevel is a way to weigh tokens by the ratio of the trainer's probability to the sampler's.
// CorrectionLevels lists all.
type CorrectionLevel struct {
	Name    string
	Card    string // a sentence: its description and its source
	Whole   bool   // the ratio is that of the whole answer
	Bounded bool   // bounds leave out whole answers, and cut no ratio

	// Weight is a token's, by its own log-ratio and that of the whole answer, and by whether the answer's mean lies inside
	// the bounds; nil: nothing is weighed.
	Weight func(o Bounded, own, whole float64, inside bool) float64
}

// CorrectionLevels are all levels.
func CorrectionLevels() []CorrectionLevel {
	return []CorrectionLevel{
		{Name: "none", Card: "No weights."},
		{Name: "token", Card: "Each token's own ratio (verl, TRL token_*, OpenRLHF tis and icepop).",
			Weight: func(o Bounded, own, _ float64, _ bool) float64 { return o.keep(portable.Exp(own)) }},
		{Name: "sequence", Card: "The ratio of the answer's sum (verl, TRL sequence_*).", Whole: true,
			Weight: func(o Bounded, _, whole float64, _ bool) float64 { return o.keep(portable.Exp(whole)) }},
		{Name: "geometric", Card: "Each token's own ratio, not cut, in answers whose mean lies inside (OpenRLHF's seq-mask-tis).", Bounded: true,
			Weight: func(_ Bounded, own, _ float64, inside bool) float64 {
				if !inside {
					return 0
				}
				return portable.Exp(own)
			}},
	}
}

// levelNamed is the level of a name; one without weights for an unknown name.
func levelNamed(name string) CorrectionLevel {
	for _, l := range CorrectionLevels() {
		if l.Name == name {
			return l
		}
	}
	return CorrectionLevel{}
}

func (o Correction) level() CorrectionLevel { return levelNamed(o.Weights) }

// Check reports options that contradict each other or would do nothing.
func (o Correction) Check(report func(key, problem, hint string)) {
	if o.Reject == "" && o.Bounds != "" {
		report("bounds", "there is no rule whose bounds these are", `for example reject = "token_k1"`)
	}
	if o.Reject != "" {
		if _, err := Rejection(nil, nil, o.Reject, o.Bounds); err != nil {
			key := "bounds"
			for _, name := range strings.Split(o.Reject, ",") {
				if _, _, wrong := ruleOf(strings.TrimSpace(name)); wrong != nil {
					key = "reject"
				}
			}
			report(key, strings.TrimPrefix(err.Error(), "rejection: "), `for example reject = "token_k1,seq_mean_k3" with bounds = "0.5_2.0,0.05"`)
		}
	}
	switch {
	case !o.weighs() && (o.Least > 0 || o.Drop || o.Normalise):
		report("weights", "there are no weights to bound or to normalise", `write weights = "token" or "sequence"`)
	case o.weighs() && o.Least >= o.Threshold:
		report("least", fmt.Sprintf("no weight lies between %v and the threshold %v", o.Least, o.Threshold), "a smaller one; 1 must lie between them")
	case o.twoBounds() && o.Normalise:
		report("normalise", "weights with two bounds are not normalised", "leave out least and drop, or normalise")
	}
}

// Of is the weights (nil: all 1) and the mask that remains.
func (o Correction) Of(trainer, sampler, mask [][]float64) (weights, kept [][]float64, err error) {
	log := zeros(mask)
	for i := range mask {
		for k := range mask[i] {
			if log[i][k] = trainer[i][k] - sampler[i][k]; mask[i][k] == 0 {
				log[i][k] = 0
			}
		}
	}
	kept = mask
	if o.Reject != "" {
		if kept, err = Rejection(log, mask, o.Reject, o.Bounds); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case !o.weighs():
	case o.twoBounds():
		weights, err = Bounded{Level: o.Weights, Drop: o.Drop, Low: o.Least, High: o.Threshold}.Weights(log, mask)
	case o.level().Weight != nil:
		weights, _ = Weights(log, mask, o.level().Whole, o.Threshold, o.Normalise)
	default:
		err = fmt.Errorf("correction: weights %q are not known: none, token, sequence and geometric are", o.Weights)
	}
	for i, row := range weights {
		for k := range row {
			if kept[i][k] == 0 {
				row[k] = 1 // vespo multiplies those of all tokens
			}
		}
	}
	return weights, kept, err
}

// correct puts the correction into an objective's inputs. Weights that are there already are multiplied.
func (o TokenLoss) correct(t Tokens) (Tokens, error) {
	if !o.Correction.On() {
		return t, nil
	}
	weights, kept, err := o.Correction.Of(t.Old, t.Sampler, t.Mask)
	if err != nil {
		return t, err
	}
	t.Mask = kept
	switch {
	case weights == nil:
	case t.Weight == nil:
		t.Weight = weights
	default:
		both := slices.Clone(t.Weight)
		for i, row := range weights {
			both[i] = slices.Clone(both[i])
			for k, w := range row {
				both[i][k] *= w
			}
		}
		t.Weight = both
	}
	return t, nil
}

// The sampler that rolled and the trainer that learns may disagree. With d the trainer's old
// log-probability minus the sampler's, of a token or summed over an answer:
//
//	weights    min(e^d, threshold), d cut to ±20, 0 outside the mask; Normalise divides by
//	           their mean over tokens (token) or over answers of their means (sequence)
//	rejection  answers or tokens are dropped where k1 = -d leaves [ln low, ln high] ("x" means
//	           1/x to x), or k2 = d²/2 or k3 = e^d - 1 - d exceed a bound

// Weights are the rollout weights, and their divisor (0: by nothing).
func Weights(log, mask [][]float64, sequence bool, threshold float64, normalise bool) (w [][]float64, by float64) {
	w = zeros(log)
	for i, row := range log {
		whole := 0.0
		for k, on := range mask[i] {
			if on != 0 {
				whole += float64(row[k] * on)
			}
		}
		for k, d := range row {
			if mask[i][k] == 0 {
				continue
			}
			if sequence {
				d = whole
			}
			w[i][k] = math.Min(portable.Exp(cutLog(d, farthest))*mask[i][k], threshold)
		}
	}
	if !normalise {
		return w, 0
	}
	total, n := 0.0, 0.0
	for i, m := range mask {
		size := sum(m)
		if !sequence {
			total, n = total+weighed(w[i:i+1], mask[i:i+1]), n+size
		} else if size > 0 {
			total, n = total+weighed(w[i:i+1], mask[i:i+1])/(size+1e-8), n+1
		}
	}
	if !sequence {
		n += 1e-8
	}
	by = total / n
	for _, row := range w {
		for k := range row {
			row[k] /= by
		}
	}
	return w, by
}

// Rejection is the mask without dropped tokens. rules are like "token_k1,seq_mean_k3" with as many bounds,
// "0.5_2.0,0.05", or one for all.
func Rejection(log, mask [][]float64, rules, bounds string) ([][]float64, error) {
	names, limits := strings.Split(rules, ","), strings.Split(bounds, ",")
	if len(limits) == 1 {
		for len(limits) < len(names) {
			limits = append(limits, limits[0])
		}
	}
	if len(limits) != len(names) {
		return nil, fmt.Errorf("rejection: %d rules with %d bounds", len(names), len(limits))
	}
	out := zeros(mask)
	for i := range mask {
		copy(out[i], mask[i])
	}
	for r, name := range names {
		level, estimator, err := ruleOf(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		inside, err := bound(estimator, limits[r])
		if err != nil {
			return nil, err
		}
		for i, row := range log {
			values := estimates(estimator, row)
			if level != "token" && !inside(over(level, values, mask[i])) {
				clear(out[i])
			}
			for k, v := range values {
				if level == "token" && !inside(v) {
					out[i][k] = 0
				}
			}
		}
	}
	return out, nil
}

// ruleOf is the level and the estimator of a rule's name.
func ruleOf(name string) (level, estimator string, err error) {
	at := max(strings.LastIndex(name, "_"), 0)
	level, estimator = name[:at], strings.TrimPrefix(name[at:], "_")
	switch {
	case level == "":
		return "", "", fmt.Errorf("rejection: %q is not a level and an estimator, like token_k1", name)
	case !slices.Contains([]string{"token", "seq_sum", "seq_mean", "seq_max"}, level):
		return "", "", fmt.Errorf("rejection: level %q is not known: token, seq_sum, seq_mean and seq_max are", level)
	case !slices.Contains([]string{"k1", "k2", "k3"}, estimator):
		return "", "", fmt.Errorf("rejection: estimator %q is not known: k1, k2 and k3 are", estimator)
	}
	return level, estimator, nil
}

func estimates(kind string, log []float64) []float64 {
	out := make([]float64, len(log))
	for k, d := range log {
		d = cutLog(d, farthest)
		switch kind {
		case "k1":
			out[k] = -d
		case "k2":
			out[k] = d * d / 2
		default:
			out[k] = portable.Exp(d) - 1 - d
		}
	}
	return out
}

// over is an answer's sum, mean or maximum.
func over(level string, values, mask []float64) float64 {
	total, top, n := 0.0, math.Inf(-1), sum(mask)
	for k, v := range values {
		if mask[k] != 0 {
			total += float64(v * mask[k])
			top = math.Max(top, v)
		}
	}
	switch {
	case level == "seq_sum":
		return total
	case level == "seq_mean":
		return total / (n + 1e-8)
	case n == 0:
		return 0
	}
	return top
}

// bound reports whether a value is kept.
func bound(kind, limit string) (func(float64) bool, error) {
	number := func(s string) (float64, error) {
		x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(x > 0) {
			return 0, fmt.Errorf("rejection: the bound %q is not a number above 0, or two with _ between", limit)
		}
		return x, nil
	}
	if kind != "k1" {
		most, err := number(limit)
		return func(v float64) bool { return v <= most }, err
	}
	low, high, two := strings.Cut(limit, "_")
	if !two {
		high = low
	}
	h, err := number(high)
	if err != nil {
		return nil, err
	}
	l := 1 / h
	if two {
		if l, err = number(low); err != nil {
			return nil, err
		}
	}
	return func(v float64) bool { return v >= portable.Log(l) && v <= portable.Log(h) }, nil
}

// Bounded is the factor of a token's loss in TRL and OpenRLHF: e^d between two bounds.
//
//	token      each token's own (TRL token_*, OpenRLHF tis and icepop)
//	sequence   that of the answer's sum (TRL sequence_*)
//	geometric  each token's own, not cut, in answers whose mean lies inside (OpenRLHF's
//	           seq-mask-tis, whose comment says that it cuts)
//
// A factor outside is cut to the bound, or has weight 0 with Drop (TRL's *_mask, icepop). Masked tokens count with d
// = 0.
type Bounded struct {
	Level     string
	Drop      bool
	Low, High float64
}

// Weights are those of all tokens.
func (o Bounded) Weights(log, mask [][]float64) ([][]float64, error) {
	out, level := zeros(log), levelNamed(o.Level)
	if level.Weight == nil && len(log) > 0 {
		return nil, fmt.Errorf("correction: level %q is not known: token, sequence and geometric are", o.Level)
	}
	for i, row := range log {
		whole := 0.0
		for k, d := range row {
			whole += float64(d * mask[i][k])
		}
		mean := portable.Exp(whole / max(sum(mask[i]), 1))
		inside := !(mean < o.Low || mean > o.High || mean == 0)
		for k, d := range row {
			out[i][k] = level.Weight(o, d*mask[i][k], whole, inside)
		}
	}
	return out, nil
}

// keep bounds a ratio.
func (o Bounded) keep(r float64) float64 {
	if o.Drop && (r < o.Low || r > o.High) {
		return 0
	}
	return min(max(r, o.Low), o.High)
}

// OffPolicy says how far the sampler's log-probabilities lie from the trainer's old ones:
// perplexities are means over answers, kl is the mean of sampler - trainer over tokens, k3
// with r = trainer/sampler, chi² = E[ρ²] - 1 over tokens and over answers.
func OffPolicy(old, sampler, mask [][]float64) map[string]float64 {
	m := map[string]float64{"log_ppl_diff_max": math.Inf(-1), "log_ppl_diff_min": math.Inf(1)}
	rows := float64(len(old))
	log, k3, square := zeros(old), zeros(old), zeros(old)
	for i := range old {
		n := sum(mask[i]) + 1e-8
		var trainer, other, whole float64
		for k, on := range mask[i] {
			if on == 0 {
				continue
			}
			d := old[i][k] - sampler[i][k]
			log[i][k], k3[i][k], square[i][k] = -d, portable.Exp(d)-d-1, portable.Exp(2*cutLog(d, farthest))
			trainer, other, whole = trainer-float64(old[i][k]*on), other-float64(sampler[i][k]*on), whole+float64(d*on)
		}
		trainer, other = trainer/n, other/n
		diff := trainer - other
		m["training_ppl"] += portable.Exp(trainer) / rows
		m["training_log_ppl"] += trainer / rows
		m["rollout_ppl"] += portable.Exp(other) / rows
		m["rollout_log_ppl"] += other / rows
		m["log_ppl_diff"] += diff / rows
		m["log_ppl_abs_diff"] += math.Abs(diff) / rows
		m["ppl_ratio"] += portable.Exp(diff) / rows
		m["log_ppl_diff_max"] = math.Max(m["log_ppl_diff_max"], diff)
		m["log_ppl_diff_min"] = math.Min(m["log_ppl_diff_min"], diff)
		m["chi2_seq"] += portable.Exp(2*cutLog(whole, farthest)) / rows
	}
	m["kl"], m["k3_kl"] = maskedMean(log, mask), maskedMean(k3, mask)
	m["chi2_token"] = maskedMean(square, mask) - 1
	m["chi2_seq"]--
	return m
}

// Disagreement names the numbers that a corrected objective has beside its own.
func Disagreement() []string {
	return []string{"sampler_kl", "sampler_k3", "sampler_ppl_ratio", "sampler_chi2", "correction_weight", "correction_most", "correction_cut", "correction_left_out"}
}

// disagreement has the sampler's distance from the trainer, and the correction's effect: the mean and the largest
// weight of tokens that are kept, the share of them whose weight is that of a bound, and the share of tokens that are
// left out or have weight 0.
func (o Correction) disagreement(t, corrected Tokens) map[string]float64 {
	off := OffPolicy(t.Old, t.Sampler, t.Mask)
	all, kept, weights, most, cut := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, row := range t.Mask {
		beyond := o.beyond(t.Old[i], t.Sampler[i], row)
		for k, on := range row {
			w := corrected.Mask[i][k]
			if corrected.Weight != nil {
				w *= corrected.Weight[i][k]
			}
			all += on
			if w == 0 {
				continue
			}
			kept, weights, most = kept+on, weights+w, max(most, w)
			if beyond[k] {
				cut += on
			}
		}
	}
	return map[string]float64{
		"sampler_kl": off["kl"], "sampler_k3": off["k3_kl"], "sampler_ppl_ratio": off["ppl_ratio"], "sampler_chi2": off["chi2_token"],
		"correction_weight": weights / max(1, kept), "correction_most": most, "correction_cut": cut / max(1, kept),
		"correction_left_out": 1 - kept/max(1, all),
	}
}

// beyond is which tokens of an answer have a ratio that a bound cuts. Weights of geometric are not cut.
func (o Correction) beyond(trainer, sampler, mask []float64) []bool {
	out := make([]bool, len(mask))
	level := o.level()
	if !o.weighs() || level.Bounded {
		return out
	}
	whole := 0.0
	for k, on := range mask {
		if on != 0 {
			whole += float64((trainer[k] - sampler[k]) * on)
		}
	}
	for k, on := range mask {
		d := whole
		if !level.Whole && on != 0 {
			d = trainer[k] - sampler[k]
		}
		r := portable.Exp(cutLog(d, farthest))
		out[k] = on != 0 && (r > o.Threshold || r < o.Least)
	}
	return out
}
