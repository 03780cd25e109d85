package experiment

func estimatorMethods() []Method {
	return []Method{
		{Name: "group", Paper: "GRPO (Shao et al., 2024)", Formula: "(r - mean of group) / (dev of group + eps)", Cases: []string{"vlm.adv_grpo", "vlm.adv_grpo_vectorized", "vlm.adv_trl", "adv.stat_tracker", "adv.verl_omni", "adv.consecutive"}},
		{Name: "global", Paper: "Flow-GRPO (Liu et al., 2025)", Formula: "(r - mean of group) / (dev of batch + eps)", Cases: []string{"adv.stat_tracker", "adv.verl_omni"}},
		{Name: "batch", Paper: "MixGRPO (Tencent, 2025), without groups", Formula: "(r - mean of batch) / (dev of batch + eps)", Cases: []string{"adv.global"}},
		{Name: "dr", Paper: "Dr.GRPO (2025)", Formula: "r - mean of group", Cases: []string{"adv.verl_omni"}},
		{Name: "max-group", Paper: "GenRL (LongCat-Video)", Formula: "(r - mean of group) / (largest dev of any group + eps)", Cases: []string{"adv.max_group_std"}},
		{Name: "leave-one-out", Paper: "RLOO", Formula: "r - mean of the others of the group", Cases: []string{"adv.rloo", "vlm.adv_rloo", "vlm.adv_rloo_vectorized"}},
		{Name: "inverse", Paper: "Mini-o3 (2025)", Formula: "(r - mean of group) · dev of group / inverse_of", Cases: []string{"vlm.adv_overturn"}},
		{Name: "history", Paper: "DDPO (Black et al., 2023)", Formula: "(r - mean) / (dev + eps) of the prompt's last rewards", Cases: []string{"adv.history"}},
		{Name: "tracker", Paper: "SPO, single-stream (Xu and Ding, 2025)", Formula: "r - α/(α+β), over the batch's dev; then α ← ρα + r, β ← ρβ + (1 - r)", Cases: []string{"methods.adv_spo"}},
		{Name: "win-rate", Paper: "Pref-GRPO (2025)", Formula: "group, of the share of comparisons that a sample wins", Cases: []string{"adv.win_rate"}},
		{Name: "exponential", Paper: "RWR (Peters and Schaal, 2007), Flow-RWR (Liu et al., 2025)", Formula: "e^r over the mean of e^r in the group"},
		{Name: "best", Paper: "fine-tuning on the best (flow_grpo's sft)", Formula: "1 where r is the group's largest, else 0", Cases: []string{"adv.stat_tracker"}},
		{Name: "ends", Paper: "online DPO (flow_grpo's dpo)", Formula: "+1 for the group's best, -1 for its worst, else 0", Cases: []string{"adv.stat_tracker", "select.dpo_pairs"}},
		{Name: "pass-at-k", Paper: "verl", Formula: "the group's best has its lead over the second, all others 0", Cases: []string{"vlm.adv_passk"}},
		{Name: "max-at-k", Paper: "PKPO (Walder and Karkhanis, 2025)", Formula: "1/C(n,k) Σ over S of k samples, the sample among them: max r(S) - max r(S without it)", Cases: []string{"methods.adv_maxatk"}},
		{Name: "beta", Paper: "BNPO (Xiao et al., 2025)", Formula: "(r - p) / f(p; α, β), p the group's success rate, f a Beta density fitted to the batch's rates", Cases: []string{"methods.adv_bnpo"}},
		{Name: "diversity", Paper: "GARDO (2025)", Formula: "r - mean of group; where positive, times the distance to the nearest other over its mean", Cases: []string{"adv.gardo"}},
		{Name: "tree", Paper: "BranchGRPO (2025)", Formula: "nodes of one depth compared, by the fused rewards of their leaves", Cases: []string{"tree.fuse"}},
		{Name: "opo", Paper: "OPO (Hao et al., 2025)", Formula: "r - Σ length·r / Σ length over the group", Cases: []string{"vlm.adv_opo"}},
		{Name: "gpg", Paper: "GPG (Chu et al., 2025)", Formula: "(r - mean of group) · samples / samples with r ≠ 0 / norm", Cases: []string{"vlm.adv_gpg"}},
		{Name: "reinforce++-baseline", Paper: "REINFORCE++ with a baseline (Hu, 2025)", Formula: "r - mean of group, whitened over the batch's tokens", Cases: []string{"vlm.adv_reinforce_pp_baseline"}},
		{Name: "reinforce++", Paper: "REINFORCE++ (Hu, 2025)", Formula: "rewards to come, discounted by γ, whitened over the batch's tokens", Cases: []string{"vlm.adv_reinforce_pp"}},
		{Name: "remax", Paper: "ReMax", Formula: "rewards to come, less the reward of the prompt's greedy answer", Cases: []string{"vlm.adv_remax"}},
		{Name: "gae", Paper: "PPO's GAE (Schulman et al., 2016)", Formula: "a = δ + γλ·a(next), δ = r + γ·V(next) - V; whitened", Cases: []string{"vlm.adv_gae", "vlm.value_loss"}},
	}
}
