package experiment

// generatorCoverage is of methods for generators of pictures and clips.
func generatorCoverage() []Covered {
	gradient := func(system, paper, through string) Covered {
		return Covered{System: system, Paper: paper, Keys: []string{`loss.objective = "reward-gradient"`, `loss.gradient.through = "` + through + `"`, `reward.0.name = "aesthetic"`}, Note: "or another reward that is differentiable"}
	}
	none := "no autoregressive generator of pictures can be read"
	return []Covered{
		{System: "DDPO", Paper: "Black et al., 2023", Preset: "ddpo"},
		{System: "Flow-GRPO", Paper: "Liu et al., 2025", Preset: "flow_grpo"},
		{System: "Flow-GRPO-Fast", Paper: "flow_grpo, 2025", Preset: "flow_grpo_fast"},
		{System: "Flow-GRPO on Wan", Paper: "flow_grpo, 2025", Preset: "flow_grpo_wan", Keys: []string{"sampler.frames = 81"}},
		{System: "Flash-GRPO", Paper: "on Wan 2.1, 2026", Preset: "flash_grpo", Keys: []string{"sampler.frames = 81"}},
		{System: "Windows of each prompt", Paper: "UniRL, 2026", Preset: "flow_grpo_fast", Keys: []string{"sampler.window.own = true"}, Note: "also of sliding windows and subsets"},
		{System: "CFO", Paper: "flow_grpo, 2025", Why: "a constraint named beside flow_grpo whose code and paper could not be had: nothing is claimed"},
		{System: "fp16 in rollouts and training", Paper: "Qi et al., 2025", Why: "kernels compute in bf16 or fp32, and log-probabilities of steps in fp32 and float64: the mismatch that fp16 lessens is 0 here, rollout and training having the same bits"},
		{System: "DanceGRPO", Paper: "Xue et al., 2025", Preset: "dance"},
		{System: "MixGRPO", Paper: "Tencent, 2025", Preset: "mixgrpo"},
		{System: "MixGRPO-Flash", Paper: "Tencent, 2025", Preset: "mixgrpo_flash"},
		{System: "TempFlow-GRPO", Paper: "2025", Preset: "tempflow"},
		{System: "BranchGRPO", Paper: "2025", Preset: "branchgrpo"},
		{System: "Flow-CPS", Paper: "Wang and Yu, 2025", Preset: "cps"},
		{System: "GRPO-Guard", Paper: "2025", Preset: "grpo_guard"},
		{System: "Flow-DPPO", Paper: "verl-omni, UniRL, 2026", Preset: "flow_dppo"},
		{System: "LongCat-Video's GRPO", Paper: "GenRL, 2025", Preset: "longcat"},
		{System: "Pref-GRPO", Paper: "2025", Preset: "pref_grpo", Note: "by rewards; with judge's form think or flex, by its comparisons"},
		{System: "GARDO", Paper: "2025", Preset: "gardo"},
		{System: "DiffusionNFT", Paper: "Zheng et al., 2025", Preset: "nft"},
		{System: "AWM", Paper: "Xue et al., 2025", Preset: "awm"},
		{System: "Centered Reward Distillation", Paper: "arXiv 2603.14128, 2026", Keys: []string{`loss.objective = "crd"`}},
		{System: "DGPO", Paper: "Luo et al., 2025; Flow-Factory", Keys: []string{`loss.objective = "dgpo"`}},
		{System: "Flow-DPO, online", Paper: "Liu et al., 2025; flow_grpo", Preset: "flow_dpo"},
		{System: "Diffusion-DPO", Paper: "Wallace et al., 2024", Keys: []string{`loss.objective = "dpo"`, `advantage.estimator = "ends"`, "rollout.offline = true", "rollout.group = 2"}},
		{System: "Flow-RWR", Paper: "Liu et al., 2025", Preset: "flow_rwr", Note: "weights are divided by their mean in the group; by any advantages: loss.objective = \"rwr\" alone"},
		{System: "Fine-tuning on the best", Paper: "flow_grpo, 2025", Keys: []string{`loss.objective = "sft"`, `advantage.estimator = "best"`}},
		gradient("SRPO (Direct-Align)", "2025", "direct"),
		gradient("ReFL", "Xu et al., 2023", "refl"),
		gradient("DRaFT", "Clark et al., 2023", "draft"),
		{System: "Diffusion on-policy distillation", Paper: "DiffusionOPD, 2026", Keys: []string{`loss.objective = "distill"`, `model.teacher = "TEACHER"`}, Note: "one teacher"},
		{System: "Fine-Grained GRPO", Paper: "G2RPO, 2025", Why: "its singular branching is sampler.tree.kind = \"trunk\", but the rest of a path is not solved at several granularities: a leaf would be several pictures of one choice"},
		{System: "Sol-RL", Paper: "NVIDIA, 2026", Why: "its scouts are a roll of their own in low precision, scored before the roll that is learned from: another loop. advantage.best_of learns from the best and worst of a group that is rolled as a whole"},
		{System: "Feature caches in rollouts", Paper: "Flow-Factory, 2026", Why: "no network keeps features of one step for the next; it would be refused where a loss reads the rollout's densities"},
		{System: "Subject-driven RPO", Paper: "Miao et al., 2024", Keys: []string{`rewards.combine = "harmonic"`, `loss.objective = "dpo"`, `advantage.estimator = "ends"`}, Note: "rewards weigh as λ and 1 - λ"},
		{System: "Flow-NRG", Paper: "Liu et al., 2025", Why: "it trains nothing: a reward of noised latents guides sampling, and no reward sees those"},
		{System: "HunyuanImage 3.0", Paper: "Tencent, 2025", Why: "the model cannot be read"},
		{System: "Qwen-Image with Flow-GRPO", Paper: "Qwen, 2025", Preset: "flow_grpo", Note: "darkroom init --recipe qwen_image_flow_grpo"},
		{System: "T2I-R1", Paper: "2025", Why: none},
		{System: "GoT-R1", Paper: "2025", Why: none},
		{System: "SimpleAR", Paper: "2025", Why: none},
		{System: "PARM", Paper: "2025", Why: none + ", and no judge looks at half-made pictures"},
		{System: "Emu3.5", Paper: "2025", Why: none},
		{System: "Pair-GRPO", Paper: "FocusDiff, 2025", Why: none + ", and no pictures of a file are put into a group of samples"},
		{System: "HunyuanVideo", Paper: "Tencent, 2024", Why: "the model cannot be read"},
		{System: "Step-by-step preference optimization", Paper: "SPO for diffusion (Liang et al., 2024)", Why: "no pairs are made at the steps within a tree"},
		{System: "VideoDPO", Paper: "2025", Why: "pairs of a file are pictures, not clips"},
		{System: "Self-Forcing++, InfLVG, Phys-AR", Paper: "2025", Why: "no autoregressive generator of clips can be read"},
	}
}
