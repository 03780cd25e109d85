package experiment

import "slices"

// Finding what a name means, and names that do not say.

// Ambiguous are names that mean several methods, with what to write instead. They
// are refused wherever a name is asked for.
func Ambiguous() []Name {
	return []Name{
		{Name: "srpo", Card: `three methods: Semantic Relative Preference Optimization for diffusion is objective = "reward-gradient"; history resampling for language models and self-guided process rewards are not built in`},
		{Name: "spo", Card: `four methods: the single-stream one is preset = "single_stream"; segment, soft and step-by-step preference optimisation are not built in`},
		{Name: "arpo", Card: `two methods: neither agentic, entropy-guided rollouts nor replay for GUI agents are built in; estimator = "group" is what both start from`},
		{Name: "rpo", Card: `two methods: the λ-harmonic one is rewards.combine = "harmonic" with objective = "dpo"; NeMo's, which reads rewards of both answers, is not built in`},
		{Name: "grpo", Card: `conventions that differ: preset = "flow_grpo", "dance", "mixgrpo" for pictures; "dapo", "drgrpo", "gspo" for tokens`},
		{Name: "fast", Card: `preset = "flow_grpo_fast" or "mixgrpo_flash"`},
		{Name: "g2rpo", Card: `two methods: guided GRPO for language models is preset = "g2rpo_a"; fine-grained GRPO for flow models is not built in`},
	}
}

// otherwise are names of published methods that are written in other words here.
func otherwise() []Name {
	return []Name{
		{Name: "ppo", Card: `PPO's clipped loss is objective = "clip"; its value network is estimator = "gae", in an [episode]`},
		{Name: "reinforce", Card: `objective = "gpg" for tokens; with a ratio, objective = "clip"`},
		{Name: "optimal-token-baseline", Card: `verl's baseline of each position needs sums of squares over the whole vocabulary, which no roll records: estimator = "leave-one-out" or "gae"`},
		{Name: "optimal-token-baseline-turns", Card: `verl's baseline of each position needs sums of squares over the whole vocabulary, which no roll records: estimator = "leave-one-out" or "gae"`},
		{Name: "rloo", Card: `estimator = "leave-one-out"`},
		{Name: "raft", Card: `objective = "sft" with estimator = "best"`},
		{Name: "diffusion-dpo", Card: `objective = "dpo"`},
		{Name: "flow-dpo", Card: `objective = "dpo"`},
		{Name: "flow_dpo", Card: `preset = "flow_dpo", or objective = "dpo"`},
		{Name: "diffusionnft", Card: `objective = "nft"`},
		{Name: "refl", Card: `objective = "reward-gradient" with loss.gradient = { through = "refl" }`},
		{Name: "draft", Card: `objective = "reward-gradient" with loss.gradient = { through = "draft" }`},
	}
}

// find is the name in a list.
func find(names []Name, name string) (Name, bool) {
	i := slices.IndexFunc(names, func(n Name) bool { return n.Name == name })
	if i < 0 {
		return Name{}, false
	}
	return names[i], true
}
