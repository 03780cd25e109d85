package loss

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/portable"
)

// The sampler that rolled and the trainer that learns may disagree. With d the trainer's old
// log-probability minus the sampler's, of a token or summed over an answer:
//
//	weights    min(e^d, threshold), d cut to ±20, 0 outside the mask; Normalise divides by
//	           their mean over tokens (token) or over answers of their means (sequence)
//	rejection  answers or tokens are dropped where k1 = -d leaves [ln low, ln high] ("x" means
//	           1/x to x), or k2 = d²/2 or k3 = e^d - 1 - d exceed a bound

// Weights are the rollout weights, and what they were divided by (0: by nothing).
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

// Rejection is the mask without what is dropped. rules are like "token_k1,seq_mean_k3" with
// as many bounds, "0.5_2.0,0.05", or one for all.
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

// bound says what is kept.
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

// Bounded is what TRL and OpenRLHF multiply a token's loss by: e^d between two bounds.
//
//	token      each token's own (TRL token_*, OpenRLHF tis and icepop)
//	sequence   that of the answer's sum (TRL sequence_*)
//	geometric  each token's own, not cut, in answers whose mean lies inside (OpenRLHF's
//	           seq-mask-tis, whose comment says that it cuts)
//
// What lies outside is cut to the bound, or has weight 0 with Drop (TRL's *_mask, icepop).
// Masked tokens count with d = 0.
type Bounded struct {
	Level     string
	Drop      bool
	Low, High float64
}

// Weights are those of all tokens.
func (o Bounded) Weights(log, mask [][]float64) ([][]float64, error) {
	out := zeros(log)
	for i, row := range log {
		whole := 0.0
		for k, d := range row {
			whole += float64(d * mask[i][k])
		}
		inside := o.keep(portable.Exp(whole/max(sum(mask[i]), 1))) != 0
		for k, d := range row {
			switch o.Level {
			case "token":
				out[i][k] = o.keep(portable.Exp(d * mask[i][k]))
			case "sequence":
				out[i][k] = o.keep(portable.Exp(whole))
			case "geometric":
				if inside {
					out[i][k] = portable.Exp(d * mask[i][k])
				}
			default:
				return nil, fmt.Errorf("correction: level %q is not known: token, sequence and geometric are", o.Level)
			}
		}
	}
	return out, nil
}

// keep bounds a ratio.
func (o Bounded) keep(r float64) float64 {
	if (o.Drop || o.Level == "geometric") && (r < o.Low || r > o.High) {
		return 0
	}
	return min(max(r, o.Low), o.High)
}
