package experiment

const pairs, gradesGood = `rollout.lessons = "pairs.jsonl"`, `rollout.lessons = "answers.jsonl"`

// tokenCoverage is of methods for language models with and without vision.
func tokenCoverage() []Covered {
	lessons := func(system, paper, objective string, more ...string) Covered {
		file, group := pairs, "rollout.group = 2"
		if objective == "kto" {
			file, group = gradesGood, "rollout.group = 1"
		}
		return Covered{System: system, Paper: paper, Keys: append([]string{`loss.objective = "` + objective + `"`, file, group}, more...)}
	}
	return []Covered{
		{System: "GRPO", Paper: "Shao et al., 2024", Keys: []string{`advantage.estimator = "group"`, `loss.objective = "clip"`}},
		{System: "DAPO", Paper: "Yu et al., 2025", Preset: "dapo", Keys: []string{"rollout.resample.rolls = 10", "episode.overlong.limit = 16384"}, Note: "the preset alone drops groups and rolls no others"},
		{System: "Dr.GRPO", Paper: "2025", Preset: "drgrpo"},
		{System: "GSPO", Paper: "Qwen, 2025", Preset: "gspo"},
		{System: "GMPO", Paper: "Zhao et al., 2025", Keys: []string{`loss.objective = "gmpo"`, "loss.clip_range = 0.4"}},
		{System: "CISPO", Paper: "MiniMax, 2025", Preset: "cispo"},
		{System: "SAPO", Paper: "Qwen, 2025", Preset: "sapo"},
		{System: "VESPO", Paper: "Shen et al., 2026", Keys: []string{`loss.objective = "vespo"`}},
		{System: "LUSPO", Paper: "2026, as in TRL", Keys: []string{`loss.objective = "luspo"`}},
		{System: "Lite PPO", Paper: "2025", Keys: []string{`advantage.estimator = "global"`, `loss.aggregate = "token-mean"`}},
		{System: "PPO", Paper: "Schulman et al., 2017", Keys: []string{`advantage.estimator = "gae"`, `loss.objective = "clip"`}},
		{System: "RLOO", Paper: "Ahmadian et al., 2024", Keys: []string{`advantage.estimator = "leave-one-out"`}},
		{System: "ReMax", Paper: "Li et al., 2023", Keys: []string{`advantage.estimator = "remax"`}},
		{System: "OPO", Paper: "Hao et al., 2025", Keys: []string{`advantage.estimator = "opo"`}},
		{System: "GPG", Paper: "Chu et al., 2025", Keys: []string{`advantage.estimator = "gpg"`, `loss.objective = "gpg"`}},
		{System: "REINFORCE++", Paper: "Hu, 2025", Keys: []string{`advantage.estimator = "reinforce++"`}},
		{System: "REINFORCE++ with a baseline", Paper: "Hu, 2025", Preset: "reinforce_pp"},
		{System: "ProRL", Paper: "NVIDIA, 2025", Preset: "prorl"},
		{System: "RAFT++", Paper: "Xiong et al., 2025", Preset: "raft"},
		{System: "RAFT", Paper: "Xiong et al., 2025", Preset: "raft", Keys: []string{`loss.objective = "gpg"`}},
		{System: "Reinforce-Rej", Paper: "Xiong et al., 2025", Preset: "raft", Keys: []string{`advantage.filter.by = "mean"`}},
		{System: "OPMD", Paper: "Kimi k1.5, 2025", Preset: "opmd"},
		{System: "BNPO", Paper: "Xiao et al., 2025", Preset: "bnpo"},
		{System: "PKPO (pass@k)", Paper: "Walder and Karkhanis, 2025", Preset: "pkpo"},
		{System: "CPPO", Paper: "Lin et al., 2025", Preset: "cppo", Note: "the group is larger from the start; freed places are not filled"},
		{System: "GFPO", Paper: "Shrivastava et al., 2025", Keys: []string{"advantage.keep.of = 8", `advantage.keep.by = "length"`}},
		{System: "GRESO", Paper: "Zheng et al., 2025", Preset: "greso"},
		{System: "DARS", Paper: "Yang et al., 2025", Preset: "dars"},
		{System: "SPO, single-stream", Paper: "Xu and Ding, 2025", Preset: "single_stream", Note: "the tracker forgets by a constant, not by the policy's KL"},
		{System: "GEPO, HeteroRL", Paper: "Zhang et al., 2025", Preset: "gepo", Keys: []string{"run.lag = 4"}},
		{System: "Delta-L Normalization", Paper: "He et al., 2025", Keys: []string{`loss.aggregate = "delta-l"`}},
		{System: "Clip-Cov", Paper: "Cui et al., 2025", Keys: []string{`loss.objective = "clip-cov"`}},
		{System: "KL-Cov", Paper: "Cui et al., 2025", Keys: []string{`loss.objective = "kl-cov"`}},
		{System: "80/20 rule of entropy", Paper: "Wang et al., 2025", Keys: []string{"loss.entropy_share = 0.2"}},
		{System: "TIS", Paper: "Yao et al., 2025; verl", Keys: []string{`loss.correction.weights = "token"`, "loss.correction.threshold = 2"}},
		{System: "MIS", Paper: "Liu et al., 2025; verl", Keys: []string{`loss.correction.weights = "token"`, "loss.correction.drop = true"}},
		{System: "GDPO", Paper: "Liu et al., 2026", Keys: []string{`advantage.combine = "gdpo"`}},
		{System: "On-policy distillation", Paper: "GKD (Agarwal et al., 2023)", Keys: []string{`loss.objective = "distill"`, `model.teacher = "TEACHER"`}},
		lessons("DPO", "Rafailov et al., 2023", "dpo"),
		lessons("cDPO", "Mitchell, 2023; TRL", "dpo", "loss.preference.smoothing = 0.1"),
		lessons("IPO", "Azar et al., 2023", "dpo", `loss.preference.form = "ipo"`),
		lessons("KTO", "Ethayarajh et al., 2024", "kto"),
		lessons("MPO", "Wang et al., 2024", "dpo", "loss.preference.weight = 0.8", "loss.preference.quality = 0.2", "loss.preference.imitate = 1"),
		lessons("RPO with likelihood", "Pang et al., 2024", "dpo", "loss.preference.imitate = 1"),
		{System: "Reward-aware RPO", Paper: "NeMo (Sun et al., 2025)", Why: "no form of loss.preference reads rewards of the two answers"},
		{System: "PF-PPO", Paper: "Shen and Zhang, 2024", Preset: "pf_ppo", Note: "its best and one drawn; by the best and the worst: advantage.best_by = \"advantage\"; the KL is in the loss, and not in the reward"},
		{System: "SPO, segment", Paper: "Guo et al., 2025", Why: "an answer is not rolled anew from points within it, so that segments have no value of their own: that is a roll within a roll, and a loop of its own"},
		{System: "SPO, soft", Paper: "Cohen et al., 2025", Why: "no such objective"},
		{System: "CHORD", Paper: "Zhang et al., 2025", Preset: "dapo", Keys: []string{"optim.split = false", "loss.imitate.weight = 0.9", "loss.imitate.least = 0.05", "loss.imitate.decay = 200", `rollout.lessons = "conversations.jsonl"`}, Note: `without φ: loss.imitate.tokens = "all"; a preset cannot name whose answers are imitated`},
		{System: "UFT, SRFT", Paper: "2025", Why: "their weights of the written part follow the policy's entropy, or its hints shrink with the run: loss.imitate has CHORD's alone"},
		{System: "PAPO", Paper: "Wang et al., 2025", Preset: "papo", Note: "its form on DAPO: preset dapo with the same perception"},
		{System: "T-GRPO", Paper: "Video-R1 (Feng et al., 2025)", Keys: []string{"rollout.group = 12", "episode.shuffled.share = 0.34"}, Note: "its eight and the four that see shuffled frames are one group here; clips as meta.clip"},
		{System: "G2RPO-A", Paper: "Guo et al., 2025", Preset: "g2rpo_a", Note: "solutions as meta.solution; Guided GRPO: episode.guided.every = 0"},
		{System: "Tree-GRPO", Paper: "Ji et al., 2025", Preset: "tree_grpo", Note: "a branch plays its stem again, so that trees save no tokens here; all leaves are learned from, as in its scripts"},
		{System: "TreePO", Paper: "2025", Why: "branches of [episode.tree] part where a turn ends, and not at segments of a fixed length within an answer"},
		{System: "GiGPO", Paper: "Feng et al., 2025", Preset: "gigpo", Note: "states are the same or not: similar texts are not clustered; over deviations: advantage.estimator = \"group\", advantage.turns.scale = \"group\""},
	}
}
