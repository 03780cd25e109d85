package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

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

// disagreement says how far the sampler lies from the trainer, and what the correction makes of it: the mean and the
// largest weight of tokens that are kept, the share of them whose weight is that of a bound, and the share of tokens
// that are left out or have weight 0.
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
	if !o.weighs() || o.Weights == "geometric" {
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
		if o.Weights == "token" && on != 0 {
			d = trainer[k] - sampler[k]
		}
		r := portable.Exp(cutLog(d, farthest))
		out[k] = on != 0 && (r > o.Threshold || r < o.Least)
	}
	return out
}
