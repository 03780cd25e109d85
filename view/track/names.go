package track

import "strings"

// Scalars have one table of names. Their first part is a group on every page:
//
//	reward/total, reward/NAME      means over an iteration's samples; _std, _min and _max beside them
//	gold/NAME                      the same of rewards that are measured, and not trained on
//	missing/total, missing/NAME    the share of samples without a score
//	heldout/total, heldout/NAME    means over held-out prompts; _low and _high are their 95 % interval
//	group/dead_share, group/spread, group/diversity    inside the groups of one prompt
//	update/loss, gradient, lr, ratio_furthest, mismatch, and the objective's own (kl, clipped, entropy)
//	sample/modes, best_of/K, picture/NAME, episode/NAME
//	check/noise_floor, check/ratio    the check before the first update
//	perf/NAME                      seconds of an iteration's parts
//
// verl and trl are the number's names in those projects; a number that they do not have
// keeps its own name.
type aliases map[string]string

// Names are the tables that --names knows.
func Names() []string { return []string{"darkroom", "verl", "trl"} }

func aliasesOf(names string) aliases {
	switch names {
	case "verl":
		return aliases{
			"reward/total": "critic/score/mean", "reward/total_max": "critic/score/max", "reward/total_min": "critic/score/min",
			"update/loss": "actor/pg_loss", "update/gradient": "actor/grad_norm", "update/lr": "actor/lr", "update/kl": "actor/kl_loss",
			"update/ppo_kl": "actor/ppo_kl", "update/clipped": "actor/pg_clipfrac", "update/clipped_low": "actor/pg_clipfrac_lower", "update/entropy": "actor/entropy",
			"heldout/total": "val-core/heldout/reward/mean@1", "heldout/": "val-aux/heldout/*/mean@1",
			"perf/roll": "timing_s/gen", "perf/score": "timing_s/reward", "perf/train": "timing_s/update_actor", "perf/evaluate": "timing_s/testing", "perf/all": "timing_s/step",
			"iteration": "training/global_step",
		}
	case "trl":
		return aliases{
			"reward/total": "train/reward", "group/spread": "train/reward_std", "group/dead_share": "train/frac_reward_zero_std",
			"reward/": "train/rewards/*/mean", "reward/*_std": "train/rewards/*/std",
			"update/loss": "train/loss", "update/gradient": "train/grad_norm", "update/lr": "train/learning_rate", "update/kl": "train/kl", "update/entropy": "train/entropy",
			"update/clipped": "train/clip_ratio/region_mean", "update/clipped_low": "train/clip_ratio/low_mean", "update/clipped_high": "train/clip_ratio/high_mean",
			"heldout/total": "eval/reward", "heldout/": "eval/rewards/*/mean",
			"perf/all": "train/step_time", "iteration": "train/global_step",
		}
	}
	return nil
}

// bounds accompany a mean; they follow it under its own name alone.
func bounds() []string { return []string{"_std", "_min", "_max", "_low", "_high"} }

// of returns a number's name.
func (a aliases) of(name string) string {
	if as, ok := a[name]; ok {
		return as
	}
	group, rest, ok := strings.Cut(name, "/")
	if !ok || rest == "total" {
		return name
	}
	for _, end := range bounds() {
		if stem, ok := strings.CutSuffix(rest, end); ok {
			if as, ok := a[group+"/*"+end]; ok && stem != "total" {
				return strings.Replace(as, "*", stem, 1)
			}
			return name
		}
	}
	if as, ok := a[group+"/"]; ok {
		return strings.Replace(as, "*", rest, 1)
	}
	return name
}
