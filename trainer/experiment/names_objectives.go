package experiment

import "slices"

// The objectives of the table of names, with the distances from a reference and the ways to average over decisions.

// An ObjectiveKind is what a policy is trained by.
type ObjectiveKind struct {
	Name
	Ratio  bool // of probabilities: needs steps that draw and can be judged
	Noised bool // judges the final sample, noised anew
	Pairs  bool // of a better and a worse sample
	Tokens bool // of sequences of tokens
	Both   bool // of pictures, and in an episode of tokens
	Free   bool // reads no advantages
	Plain  bool // its clip range is of the bare ratio: rounding must not exceed it
	Draws  bool // draws a number for every token
	Flow   bool // is defined for flows alone
	Taught bool // learns from conversations of a file, and nothing is rolled
	Judged bool // of these, from answers that somebody judged

	// What it asks other weights for, beside the current ones.
	Old       bool // the old ones
	KL        bool // the reference, where loss.kl has a weight
	Reference bool // the reference, always
	Average   bool // the moving average, where loss.kl.ema_weight is set
	Follows   bool // its old weights follow at the pace of optim.ema, and are the average

	// Steps is the loss of a sampler's transitions, Verdict that of noised samples; nil: it has none.
	Steps   func(Loss) StepLoss
	Verdict func(l Loss, group int) NoisedLoss
	// Together reports whether Verdict looks at all times of a sample at once; nil: it does not.
	Together func(Loss) bool

	numbers []string // of pictures, that monitors may watch
	// episode is what the name means in an episode, where that is another objective; nil: nothing else.
	episode *ObjectiveKind
	// options are what becomes of [loss] for pictures, where that has checks of its own.
	options func(Loss) options
}

// options say what of them does not go together.
type options interface {
	Check(report func(key, problem, hint string))
}

// Objectives are those of trainer/loss.
func Objectives() []ObjectiveKind {
	clip := func(l Loss) options { return l.Clip() }
	clips := func(l Loss) StepLoss { return l.Clip().Of }
	ratios := []string{"kl", "ratio_mean", "ratio_std", "ratio_min", "ratio_max", "approx_kl", "ppo_kl"}
	clipped := slices.Concat(ratios, []string{"clipped", "clipped_high", "clipped_low"})
	masked := slices.Concat(ratios, []string{"kl_mask_fraction", "pos_rm_fraction", "neg_rm_fraction", "masked_fraction", "unmasked_fraction", "kl_new_old_mean", "kl_new_old_max"})
	return []ObjectiveKind{
		{Name: Name{Name: "clip", Card: "The clipped ratio (PPO, GRPO); clip_high and dual_clip are off unless set.", sets: `ratio = "plain"`}, Ratio: true, Both: true, options: clip, Plain: true, Steps: clips, numbers: clipped},
		{Name: Name{Name: "guard", Card: "The ratio without its drift, at the scale of each step (GRPO-Guard).", sets: `ratio = "guard"`}, Ratio: true, options: clip, Steps: clips, numbers: clipped},
		{Name: Name{Name: "dppo", Card: "No clip: a sample that moves away is left out where the policies diverge (Flow-DPPO)."}, Ratio: true, Steps: func(l Loss) StepLoss { return l.Masked().Of }, numbers: masked},
		{Name: Name{Name: "nft", Card: "Positive and negative implicit velocities on noised samples (DiffusionNFT); any solver may roll."}, Noised: true, Flow: true, Old: true, KL: true, Follows: true, Verdict: implicit, numbers: []string{"kl", "distance_to_old", "probability"}},
		{Name: Name{Name: "crd", Card: "The network's own reward of a sample, its lead over the old network, is brought to the sample's advantage, both centred over the batch (Centered Reward Distillation); any solver may roll."},
			Noised: true, Flow: true, Old: true, KL: true, Follows: true, Verdict: centred, numbers: []string{"kl", "own_reward"}},
		{Name: Name{Name: "awm", Card: "Advantage-weighted matching: the ratio of matching errors on noised samples (AWM).", sets: "adv_max = 1"}, Noised: true, Flow: true, options: func(l Loss) options { return l.AWM() }, Old: true, KL: true, Average: true, Verdict: matching, Together: func(l Loss) bool { return l.AWM().Together() }, numbers: []string{"kl"}},
		{Name: Name{Name: "dpo", Card: "Preference of the better of two samples over the worse (Diffusion-DPO, Flow-DPO). Of an episode: of the better of two answers in a file's rows (rollout.lessons, loss.preference; DPO and its kin, MPO, RPO)."}, Noised: true, Pairs: true, Reference: true, Verdict: preferredPairs, numbers: []string{"accuracy", "margin"},
			episode: &ObjectiveKind{Name: Name{Name: "dpo"}, Tokens: true, Free: true, Taught: true, Judged: true, Reference: true, numbers: []string{"accuracy", "margin", "chosen", "rejected", "nll"}}},
		{Name: Name{Name: "kto", Card: "Answers of a file's rows that are good or bad, each by itself (KTO; rollout.lessons, loss.preference)."}, Tokens: true, Free: true, Taught: true, Judged: true, Reference: true, numbers: []string{"accuracy", "margin", "chosen", "rejected", "distance"}},
		{Name: Name{Name: "distill", Card: "The distance of a step's mean from the teacher's, on the policy's own samples (Diffusion-OPD); of an episode: of the log-probabilities of its tokens (GKD, on-policy distillation); no sample is compared with another, so that rewards are watched and not learned from.", sets: "kl = { weight = 1, reference = \"teacher\" }"}, Ratio: true, Free: true, Steps: distilled, numbers: []string{"kl"},
			episode: &ObjectiveKind{Name: Name{Name: "distill", sets: "kl = { weight = 1, reference = \"teacher\", estimator = \"k2\" }"}, Tokens: true, Free: true}},
		{Name: Name{Name: "rwr", Card: "Matching errors weighted by the reward (reward-weighted regression)."}, Noised: true, Verdict: weighted},
		{Name: Name{Name: "sft", Card: "Matching errors of the chosen samples (fine-tuning on the best). Of an episode: the cross entropy of a file's conversations (rollout.lessons)."}, Noised: true, Verdict: weighted,
			episode: &ObjectiveKind{Name: Name{Name: "sft"}, Tokens: true, Free: true, Taught: true, numbers: []string{"nll", "token_probability"}}},
		{Name: Name{Name: "dgpo", Card: "Preference of a group's better samples over its worse (Direct Group Preference Optimization)."}, Noised: true, Reference: true, Verdict: preferredGroups},
		{Name: Name{Name: "reward-gradient", Card: "The reward's own gradient, through the picture and the network (SRPO's Direct-Align, ReFL, DRaFT); the reward must be differentiable."}, Noised: true, Free: true, numbers: []string{"developed_reward"}},
		{Name: Name{Name: "gspo", Card: "One clipped ratio a sequence, the mean over its tokens, of which each has its own gradient (GSPO; verl)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "gspo-mean", Card: "gspo with the gradient of the mean (EasyR1, OpenRLHF, TRL)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "gmpo", Card: "The geometric mean of clipped ratios, one number a sequence (GMPO)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "gpg", Card: "The log-probability times the advantage, without a ratio (GPG, REINFORCE)."}, Tokens: true},
		{Name: Name{Name: "cispo", Card: "The clipped ratio as a weight without gradient (CISPO)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "luspo", Card: "gspo-mean whose sequences weigh by their length (LUSPO)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "vespo", Card: "A smooth weight of the whole sequence in place of a clip (VESPO)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "clip-cov", Card: "The clipped ratio without some tokens whose probability and advantage move together (Clip-Cov)."}, Ratio: true, Tokens: true, Draws: true},
		{Name: Name{Name: "kl-cov", Card: "No clip; the tokens whose probability and advantage move together most are pulled back (KL-Cov)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "gepo", Card: "The clipped ratio of an answer to what its group was expected to be, one number a sequence, for rollouts that are stale (GEPO)."}, Ratio: true, Tokens: true},
		{Name: Name{Name: "sapo", Card: "A sigmoid of the ratio in place of the clip (SAPO)."}, Ratio: true, Tokens: true},
	}
}

// KLs are the ways to measure the distance from the reference.
func KLs() []Name {
	return []Name{
		{Name: "mean", Card: "Distance of the means over the step's deviation: exact for steps that draw (flow_grpo)."},
		{Name: "velocity", Card: "Distance of the network's outputs (Flow-Factory, NFT, AWM)."},
		{Name: "k1", Card: "Log-ratio: right on average, with a gradient that is noise."},
		{Name: "k2", Card: "Half the squared log-ratio."},
		{Name: "k3", Card: "exp(-k1) + k1 - 1: never negative (GRPO)."},
		{Name: "abs", Card: "Size of the log-ratio."},
	}
}

// Aggregations are the ways to average over decisions.
func Aggregations() []Name {
	return []Name{
		{Name: "token-mean", Card: "All decisions weigh the same (DAPO, CISPO)."},
		{Name: "seq-mean-token-sum", Card: "Mean over samples of the sum of each."},
		{Name: "seq-mean-token-mean", Card: "Mean over samples of the mean of each (GRPO, GSPO)."},
		{Name: "seq-mean-token-sum-norm", Card: "Sum over a constant length (Dr.GRPO)."},
		{Name: "delta-l", Card: "Sums over a constant length, long answers weighing less: the unbiased average of least variance (ΔL Normalization)."},
	}
}
