package experiment

// rewardCoverage is of rewards that papers name beside their optimiser.
func rewardCoverage() []Covered {
	judge := func(form string) []string {
		return []string{`reward.0.name = "judge"`, `reward.0.judge.form = "` + form + `"`, `reward.0.path = "FOLDER"`}
	}
	return []Covered{
		{System: "ImageReward", Paper: "Xu et al., 2023", Draws: true, Keys: []string{`reward.0.name = "imagereward"`, `reward.0.path = "FOLDER"`}},
		{System: "HPSv2", Paper: "Wu et al., 2023", Draws: true, Keys: []string{`reward.0.name = "hpsv2"`, `reward.0.path = "FOLDER"`}},
		{System: "PickScore", Paper: "Kirstain et al., 2023", Draws: true, Keys: []string{`reward.0.name = "pickscore"`, `reward.0.path = "FOLDER"`}},
		{System: "UnifiedReward", Paper: "Wang et al., 2025", Draws: true, Keys: judge("unified"), Note: "UnifiedReward-Think and -Flex as forms think and flex, which compare pairs"},
		{System: "Swiss tournaments of pairwise judges", Paper: "UniRL, 2026", Draws: true, Keys: append(judge("think"), "reward.0.judge.rounds = 3")},
		{System: "Reward ensembles", Paper: "Coste et al., 2023", Draws: true, Keys: []string{`rewards.combine = "ensemble"`, "rewards.disagreement = 0.5"}, Note: "each reward is one judge of the same thing; their variance is taken off"},
		{System: "Gated rewards", Paper: "GLM-4.5V, 2025", Draws: true, Keys: []string{`reward = [{ name = "ocr", gate = { by = "aesthetic", at_least = 0.5 } }, { name = "aesthetic" }]`}},
		{System: "Face identity", Paper: "subject-driven RL, 2025", Why: "no network of faces is there; likeness compares DINO's features with a source picture"},
		{System: "Layout by a detector", Paper: "GenEval, 2023", Draws: true, Keys: []string{`reward.0.name = "layout"`, `reward.0.url = "http://localhost:9000"`}},
		{System: "SUDER, CoRL", Paper: "2025", Why: "they reward a model that both draws and reads by its own two directions, and no such model can be read"},
		{System: "Dynamic weighting of rewards", Paper: "2025", Why: "weights of rewards stay as written, or change with a [[stage]]; advantage.combine = \"gdpo\" makes their scales equal"},
		{System: "Questions of one's own to a judge", Paper: "rubrics, 2025", Keys: []string{`reward.0.name = "judge"`, `reward.0.path = "FOLDER"`, `reward.0.judge.form = "question"`, `reward.0.judge.question = "{prompt}\n{answer}\nIs it right? 1 or 0."`}},
		{System: "Rewards of half-made pictures", Paper: "PARM, 2025", Why: "rewards see finished samples; steps share what a sample earns, or have credit within a tree"},
		{System: "ANLS, edit distance", Paper: "DocVQA, 2021", Keys: []string{`reward.0.name = "accuracy"`, `reward.0.rule = "anls"`}},
		{System: "Curiosity about pictures", Paper: "Pixel Reasoner, 2025", Keys: []string{`reward.0.name = "tools"`}},
	}
}

// frameworkCoverage is of what frameworks are known for, beside the methods of the other tables.
func frameworkCoverage() []Covered {
	return []Covered{
		{System: "VLM-R1, EasyR1", Paper: "2025", Keys: []string{`advantage.estimator = "group"`, `reward.0.name = "accuracy"`}, Note: "their rules and objectives; models of Qwen's families alone"},
		{System: "veRL: rollouts beside training, on other machines", Paper: "Sheng et al., 2024", Keys: []string{"run.lag = 1"}, Note: "with darkroom worker; one machine learns, and no reward model is trained"},
		{System: "veRL: rollouts by vLLM or SGLang", Paper: "Sheng et al., 2024", Keys: []string{`episode.engine.url = "http://localhost:8000"`}},
		{System: "TRL, OpenRLHF, NeMo-RL: fine-tuning and preferences", Paper: "2020-2025", Keys: []string{`loss.objective = "sft"`, `rollout.lessons = "conversations.jsonl"`, "rollout.group = 1"}, Note: "DPO and its kin, KTO, PPO, RLOO and REINFORCE++: rows above; darkroom trains no reward model from pairs"},
		{System: "ROLL: rewards that scale apart", Paper: "Alibaba, 2025", Keys: []string{`reward.0.name = "http"`, `reward.0.url = "http://localhost:9000"`}, Note: "darkroom score --serve, or one's own server"},
		{System: "verifiers, RL-Factory: environments and tools of one's own", Paper: "2025", Keys: []string{`episode.protocol = "darkroom"`, `episode.tool = [{ name = "search", url = "http://localhost:8002" }]`}, Note: "reward environment takes what they say at the end"},
		{System: "AReaL: asynchronous rollouts, corrected for their age", Paper: "Fu et al., 2025", Keys: []string{"run.lag = 4", `loss.correction.weights = "token"`, "loss.correction.threshold = 2"}, Note: "with darkroom worker; a rollout is not interrupted for new weights"},
		{System: "RLinf, WeChat-YATT: roles on machines of their own", Paper: "2025", Keys: []string{"run.lag = 1"}, Note: "rollouts and rewards move apart; learning stays on one machine"},
		{System: "FlashRL: quantised rollouts", Paper: "Yao et al., 2025", Keys: []string{`episode.engine.url = "http://localhost:8000"`, `loss.correction.weights = "token"`, "loss.correction.threshold = 2"}, Note: "an engine that serves quantised weights, corrected by TIS; darkroom's own rollouts are not quantised"},
		{System: "slime: Megatron's scale", Paper: "THUDM, 2025", Why: "models are not split over devices: each holds all of it"},
		{System: "verl-agent: environments step by step", Paper: "Feng et al., 2025", Preset: "gigpo", Keys: []string{`episode.protocol = "darkroom"`, `episode.tool = [{ name = "act", url = "http://localhost:8002", state = true }]`}},
		{System: "agent-lightning: training beside a running agent", Paper: "Microsoft, 2025", Why: "an episode is played by darkroom, whose tools may be anybody's; traces of another agent are learned from as lessons, and not by their rewards"},
	}
}
