package experiment

import (
	"fmt"
	"slices"
)

// What the ledger has numbers of, and so what can be watched.

// Monitors are the names that every run has; rewards and objectives add theirs.
func Monitors() []Name {
	return []Name{
		{Name: "total", Card: "Mean of what is trained on."},
		{Name: "reward.NAME", Card: "Mean of a trained reward over the iteration's samples."},
		{Name: "gold.NAME", Card: "Mean of a reward that is only measured, over the iteration's samples."},
		{Name: "heldout.NAME", Card: "Mean of a reward over held-out prompts, in iterations that evaluate; heldout.total is all trained ones."},
		{Name: "missing", Card: "Share of samples without a total."},
		{Name: "missing.NAME", Card: "Share of samples that a reward has no score for."},
		{Name: "dead_groups", Card: "Groups whose samples all have one total."},
		{Name: "dead_share", Card: "The same, over the number of groups."},
		{Name: "spread_in_groups", Card: "Mean over groups of the deviation of totals."},
		{Name: "diversity", Card: "Root mean squared difference of the latents of two samples of a prompt."},
		{Name: "reward_modes", Card: "How many bins of the totals' histogram are in use, e to its entropy: 1 where all samples score alike. Bins are those of the first iteration."},
		{Name: "best_of.K", Card: "Expected best total of K samples of a prompt: 2, 4, 8 and so on, up to the group."},
		{Name: "picture.brightness", Card: "Mean brightness of the rolled pictures, 0 to 255."},
		{Name: "picture.contrast", Card: "Their contrast."},
		{Name: "picture.saturation", Card: "Their saturation."},
		{Name: "picture.colourfulness", Card: "Their colourfulness."},
		{Name: "picture.entropy", Card: "Entropy of their grey levels."},
		{Name: "picture.clipped", Card: "Share of their values at either end."},
		{Name: "picture.sharpness", Card: "Variance of their Laplacian."},
		{Name: "loss", Card: "Of the last update."},
		{Name: "gradient", Card: "Norm of the last update's gradient, before it is clipped."},
		{Name: "lr", Card: "Learning rate of the last update."},
		{Name: "ratio", Card: "How far any ratio of the last update is from 1."},
		{Name: "mismatch", Card: "Root mean squared log-ratio of the first update, when nothing has moved: 0 where rollout and training agree."},
		{Name: "clip_fraction", Card: "Share of decisions whose ratio is clipped, or that are left out."},
		{Name: "noise_floor", Card: "What rounding to the run's precision does to log-probabilities (rms), at the start of every stage."},
	}
}

// objectiveNumbers are what an objective measures, beside those that all have.
func objectiveNumbers() map[string][]string {
	ratios := []string{"kl", "ratio_mean", "ratio_std", "ratio_min", "ratio_max", "approx_kl", "ppo_kl"}
	clip := append(slices.Clone(ratios), "clipped", "clipped_high", "clipped_low")
	return map[string][]string{
		"clip": clip, "guard": clip,
		"dppo": append(slices.Clone(ratios), "kl_mask_fraction", "pos_rm_fraction", "neg_rm_fraction", "masked_fraction", "unmasked_fraction", "kl_new_old_mean", "kl_new_old_max"),
		"nft":  {"kl", "distance_to_old", "probability"}, "awm": {"kl"}, "dpo": {"accuracy", "margin"}, "reward-gradient": {"developed_reward"},
	}
}

// Watched are the numbers that this experiment's ledger will have.
func (e *Experiment) Watched() []Name {
	var all []Name
	turns := []*Experiment{e}
	for i := range e.Stages {
		turns = append(turns, e.Stage(i))
	}
	add := func(name, card string) {
		if !slices.ContainsFunc(all, func(n Name) bool { return n.Name == name }) {
			all = append(all, Name{Name: name, Card: card})
		}
	}
	for _, n := range Monitors() {
		switch n.Name {
		case "reward.NAME":
			for _, w := range e.Rewards {
				kind := "reward."
				if !w.Train {
					kind = "gold."
				}
				add(kind+w.Name, n.Card)
			}
		case "heldout.NAME":
			if e.Evaluate.Prompts == "" {
				continue
			}
			add("heldout.total", n.Card)
			for _, w := range e.Rewards {
				add("heldout."+w.Name, n.Card)
			}
		case "missing.NAME":
			for _, w := range e.Rewards {
				add("missing."+w.Name, n.Card)
			}
		case "best_of.K":
			for _, at := range turns {
				for _, k := range BestOfs(at.Rollout.Group) {
					add(fmt.Sprintf("best_of.%d", k), n.Card)
				}
			}
		case "gold.NAME":
		default:
			add(n.Name, n.Card)
		}
	}
	for _, at := range turns {
		for _, name := range objectiveNumbers()[at.Loss.Objective] {
			add(name, "Mean over the last update, of objective "+at.Loss.Objective+".")
		}
	}
	return all
}

// watchedRewards are the rewards by the names that monitors call them.
func (e *Experiment) watchedRewards() []string {
	var names []string
	for _, w := range e.Rewards {
		kind := "reward."
		if !w.Train {
			kind = "gold."
		}
		names = append(names, kind+w.Name)
	}
	return names
}

// BestOfs are the numbers of samples whose best the ledger has: doubled up to the group.
func BestOfs(group int) []int {
	var all []int
	for k := 2; k < group; k *= 2 {
		all = append(all, k)
	}
	if group > 1 {
		all = append(all, group)
	}
	return all
}
