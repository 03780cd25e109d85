package experiment

func objectiveMethods() []Method {
	return []Method{
		{Name: "clip", Paper: "PPO (Schulman et al., 2017)", Formula: "max(-A·ratio, -A·clip(ratio, 1-low, 1+high))", Cases: []string{"loss.flow_grpo", "loss.flow_factory", "loss.verl_flow_grpo", "loss.mixgrpo", "loss.dance_two_rewards", "vlm.loss_ppo", "vlm.loss_easyr1", "vlm.loss_openrlhf", "vlm.loss_trl"}},
		{Name: "guard", Paper: "GRPO-Guard (2025)", Formula: "clip, of e^((lp - old + bias)·τ), bias = mean (m - m_old)²/(2τ²)", Cases: []string{"loss.guard_flow_grpo", "loss.guard_flow_factory", "loss.verl_guard"}},
		{Name: "dppo", Paper: "Flow-DPPO (verl-omni)", Formula: "-A·ratio, without samples that moved beyond the threshold and go on moving", Cases: []string{"loss.verl_dppo"}},
		{Name: "nft", Paper: "DiffusionNFT (Zheng et al., 2025)", Formula: "(p·err(v_old + β(v - v_old)) + (1-p)·err(v_old - β(v - v_old))) / β, p the advantage as a probability", Cases: []string{"loss.nft", "loss.nft_r", "adv.nft_reward"}},
		{Name: "crd", Paper: "Centered Reward Distillation (arXiv 2603.14128)", Formula: "(β·Rc - ac)², R = d_old - d; Rc and ac are R and the advantage's share, centred over the batch", Cases: []string{"loss.crd", "ema.crd_decay"}},
		{Name: "awm", Paper: "Advantage-weighted matching (Xue et al., 2025)", Formula: "clip, of e^(d_old - d)", Cases: []string{"loss.awm", "loss.awm_log_prob"}},
		{Name: "dpo", Paper: "Diffusion-DPO (Wallace et al., 2024), Flow-DPO; of an episode DPO (Rafailov et al., 2023)", Formula: "-log σ(-β/2·((d - d_ref) of the better - (d - d_ref) of the worse)); of an episode -log σ(β(Δ_better - Δ_worse)), Δ = lp - lp_ref", Cases: []string{"loss.dpo", "select.dpo_pairs", "methods.loss_preference"}},
		{Name: "kto", Paper: "KTO (Ethayarajh et al., 2024)", Formula: "1 - σ(β(Δ - κ)) of good answers, 1 - σ(β(κ - Δ)) of bad ones", Cases: []string{"methods.loss_kto"}},
		{Name: "distill", Paper: "Diffusion-OPD; of an episode GKD", Formula: "the distance to the teacher on the policy's own samples", Cases: []string{"loss.kl_mean", "vlm.kl"}},
		{Name: "rwr", Paper: "reward-weighted regression", Formula: "mean of r·d", Cases: []string{"loss.weighted_fm"}},
		{Name: "sft", Paper: "fine-tuning on the best; of an episode cross entropy", Formula: "mean of A·d; of an episode -lp of each trained token", Cases: []string{"loss.weighted_fm", "sft.loss", "sft.tokens", "methods.loss_chord"}},
		{Name: "dgpo", Paper: "Direct Group Preference Optimization (Flow-Factory)", Formula: "σ(Σ over the group of A·β·(d - d_ref)/size)·A·d", Cases: []string{"loss.dgpo"}},
		{Name: "reward-gradient", Paper: "SRPO's Direct-Align, ReFL, DRaFT", Formula: "the gradient of the reward by the network, through what is decoded", Cases: []string{"align.direct", "loss.reward_hinge"}},
		{Name: "gspo", Paper: "GSPO (Qwen, 2025)", Formula: "clip, of e^(mean over tokens of lp - old), each token with its own gradient", Cases: []string{"vlm.loss_gspo", "vlm.loss_easyr1"}},
		{Name: "gspo-mean", Paper: "GSPO (EasyR1, OpenRLHF, TRL)", Formula: "the same, with the gradient of the mean", Cases: []string{"vlm.loss_easyr1", "vlm.loss_openrlhf"}},
		{Name: "gmpo", Paper: "GMPO (Zhao et al., 2025)", Formula: "-A·e^(mean over tokens of the clipped lp - old)", Cases: []string{"vlm.loss_gmpo"}},
		{Name: "gpg", Paper: "GPG (Chu et al., 2025), REINFORCE", Formula: "-A·lp", Cases: []string{"vlm.loss_gpg", "vlm.loss_reinforce"}},
		{Name: "cispo", Paper: "CISPO (MiniMax, 2025)", Formula: "-A·clip(ratio)·lp, clip(ratio) without gradient", Cases: []string{"vlm.loss_cispo", "vlm.loss_easyr1", "vlm.loss_trl"}},
		{Name: "luspo", Paper: "LUSPO", Formula: "gspo-mean, summed over the tokens of an answer", Cases: []string{"vlm.loss_trl"}},
		{Name: "vespo", Paper: "VESPO", Formula: "a smooth weight of the whole answer's ratio, without gradient, times -A·lp", Cases: []string{"vlm.loss_trl"}},
		{Name: "clip-cov", Paper: "Clip-Cov (Cui et al., 2025)", Formula: "clip, without a random share of the tokens with low < (A - mean A)(lp - mean lp) < high"},
		{Name: "kl-cov", Paper: "KL-Cov (Cui et al., 2025)", Formula: "-A·ratio; the share of tokens with the largest covariance has weight·|lp - old| added"},
		{Name: "gepo", Paper: "GEPO (Zhang et al., 2025; HeteroRL)", Formula: "clip, of p / (Σ q²/Σ q over the group), p and q the geometric means of an answer's probabilities, new and old", Cases: []string{"methods.loss_gepo"}},
		{Name: "sapo", Paper: "SAPO (Qwen, 2025)", Formula: "-A·σ(τ(ratio - 1))·4/τ", Cases: []string{"vlm.loss_sapo", "vlm.loss_easyr1", "vlm.loss_trl"}},
	}
}
