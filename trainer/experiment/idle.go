package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Keys that only some objectives, or only episodes, read. Written under another they do
// nothing, which is no mistake, since objectives may be varied over one file, and easily
// overlooked: the plan warns.

// readBy are the objectives that read a key of [loss]; "tokens" stands for all of an
// episode, "steps" for all that compare probabilities of a sampler's steps, "noised"
// for all on noised samples.
func readBy() map[string][]string {
	return map[string][]string{
		"clip_range": {"clip", "guard", "awm", "dgpo", "tokens"}, "clip_high": {"clip", "guard", "awm", "dgpo", "tokens"}, "dual_clip": {"clip", "guard", "awm", "tokens"},
		"ratio": {"clip", "guard"}, "threshold": {"dppo"}, "use_std": {"dppo"}, "noise_weight": {"clip", "guard"}, "noise_scale": {"clip", "guard"}, "change_weight": {"clip", "guard"},
		"gradient": {"reward-gradient"}, "times": {"noised"}, "beta": {"nft", "dpo", "dgpo"}, "adv_clip": {"nft", "awm"}, "adv_mode": {"nft"}, "adv_max": {"awm"}, "weighting": {"awm"}, "power": {"awm"}, "ratios": {"awm"}, "elbo": {"awm"}, "clip_far": {"dgpo"},
		"kl.ema_weight": {"awm"}, "kl.over": {"steps"}, "kl.corrected": {"tokens"},
		"ratio_cap": {"tokens"}, "sequence_ratio": {"tokens"}, "entropy_weight": {"tokens"}, "drift": {"tokens"}, "entropy_share": {"tokens"}, "aggregate": {"tokens"}, "aggregate_length": {"tokens"},
		"tau_pos": {"sapo"}, "tau_neg": {"sapo"}, "vespo": {"vespo"}, "covariance": {"clip-cov", "kl-cov"},
	}
}

// idle says which written keys nothing reads.
func (e *Experiment) idle() []string {
	var keys []string
	for key, by := range readBy() {
		if e.written("loss."+key) && !e.reads(by) {
			keys = append(keys, "loss."+key)
		}
	}
	if e.Episode != nil && slices.Contains([]string{"gpg", "sapo", "vespo", "kl-cov"}, e.Loss.Objective) {
		for _, key := range []string{"loss.clip_range", "loss.clip_high"} {
			if e.written(key) {
				keys = append(keys, key)
			}
		}
	}
	var all []string
	if len(keys) > 0 {
		slices.Sort(keys)
		all = append(all, fmt.Sprintf("%s %s not read by objective %q", strings.Join(keys, ", "), are(len(keys)), e.Loss.Objective))
	}
	for _, x := range []struct {
		key, why string
		idle     bool
	}{
		{"advantage.credit", "a picture has no tokens", e.Episode == nil && !strings.HasPrefix(e.Advantage.Estimator, "reinforce++")},
		{"advantage.history", fmt.Sprintf("estimator %q remembers nothing", e.Advantage.Estimator), e.Advantage.Estimator != "history"},
		{"loss.value", fmt.Sprintf("estimator %q has no head of values", e.Advantage.Estimator), e.Advantage.Estimator != "gae"},
		{"advantage.norm", fmt.Sprintf("estimator %q has none", e.Advantage.Estimator), e.Advantage.Estimator != "gpg"},
		{"advantage.inverse_of", fmt.Sprintf("the scale is %q", e.Advantage.Scale), e.Advantage.Scale != "inverse"},
		{"advantage.margin", fmt.Sprintf("objective %q has no pairs", e.Loss.Objective), !e.objective().Pairs},
		{"sampler", "an episode samples tokens", e.Episode != nil},
	} {
		if x.idle && e.written(x.key) {
			all = append(all, fmt.Sprintf("%s is not read: %s", x.key, x.why))
		}
	}
	return all
}

// reads reports whether the objective is among some.
func (e *Experiment) reads(by []string) bool {
	o := e.objective()
	if e.Episode != nil { // whose clip is another than the steps'
		return slices.Contains(by, "tokens") || o.Tokens && slices.Contains(by, e.Loss.Objective)
	}
	return slices.Contains(by, e.Loss.Objective) || o.Ratio && slices.Contains(by, "steps") || o.Noised && slices.Contains(by, "noised")
}

func are(n int) string {
	if n > 1 {
		return "are"
	}
	return "is"
}
