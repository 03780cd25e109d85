package experiment

import (
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Names that a file can have. A solver, a schedule, an estimator or an objective is a value in the file of its
// formula, and a line of sde.Solvers, sde.Grids, advantage.Rules or loss.Objectives.

// A Name is something that can be written, with its card.
type Name struct {
	Name string `json:"name"`
	Card string `json:"card"` // a sentence or two: its description, and its source
}

// A Section is a kind of names.
type Section struct {
	Name string // as darkroom list knows it
	Key  string // where such a name is written
	Has  []Name
}

// Sections are all names.
func Sections() []Section {
	return []Section{
		{"solvers", "sampler.solver", named(sde.Solvers(), func(s sde.Solver) Name { return Name{Name: s.Name, Card: s.Card} })},
		{"schedules", "sampler.schedule.kind", named(sde.Grids(), func(g sde.Grid) Name { return Name{Name: g.Name, Card: g.Card} })},
		{"windows", "sampler.window.kind", named(sde.Windows(), func(w sde.Window) Name { return Name{Name: w.Name, Card: w.Card} })},
		{"advantages", "advantage.estimator", named(advantage.Rules(), func(r advantage.Rule) Name { return Name{Name: r.Name, Card: r.Card} })},
		{"objectives", "loss.objective", named(loss.Objectives(), func(o loss.Objective) Name { return Name{Name: o.Name, Card: o.Card} })},
		{"kls", "loss.kl.estimator", KLs()},
		{"aggregations", "loss.aggregate", Aggregations()},
		{"rewards", "reward.name", named(kinds.All(), func(k rewards.Kind) Name { return Name{Name: k.Name, Card: k.Card} })},
		{"scalings", "reward.scaling", Scalings()},
		{"monitors", "monitor.watch", Monitors()},
		{"choices", "", Choices()},
		{"rules", "reward.rule", named(answers.All(), func(r answers.Named) Name { return Name{Name: r.Name, Card: r.Card} })},
		{"presets", "preset", named(Presets(), func(p Preset) Name { return p.Name })},
		{"ambiguous", "", Ambiguous()},
	}
}

func named[T any](all []T, name func(T) Name) []Name {
	var names []Name
	for _, x := range all {
		names = append(names, name(x))
	}
	return names
}

// KLs are the ways to measure the distance from the reference.
func KLs() []Name {
	return named(loss.Distances(), func(d loss.Distance) Name { return Name{Name: d.Name, Card: d.Card} })
}

// Aggregations are the ways to average over decisions.
func Aggregations() []Name {
	return named(loss.Averages(), func(a loss.Average) Name { return Name{Name: a.Name, Card: a.Card} })
}

// Scalings are published projects' scalings of one cosine.
func Scalings() []Name {
	var all []Name
	for _, x := range neural.Scalings() {
		all = append(all, Name{Name: x.Name, Card: x.Card()})
	}
	return all
}

// The meaning of a name, and ambiguous names.

// Ambiguous are names of several methods, with the names to write instead. They are refused wherever a name is asked
// for.
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

// Facts in the table of names beside each card: docs/methods.md is written from it.

// A Method is a name of the sections advantages, objectives and solvers.
type Method struct {
	Kind, Name string
	Paper      string   // whose it is
	Formula    string   // the formula, in a line
	Cases      []string // operations of cmd/parity that hold it to published code
}

// Methods are all, in the order of their sections.
func Methods() []Method {
	return slices.Concat(of("advantages", estimatorMethods()), of("objectives", objectiveMethods()), of("solvers", solverMethods()))
}

func of(kind string, all []Method) []Method {
	for i := range all {
		all[i].Kind = kind
	}
	return all
}

// presetCases hold whole presets to published code, beside the cases of their parts.
func presetCases() map[string][]string {
	return map[string][]string{
		"branchgrpo":    {"tree.branch_rollout", "tree.fuse", "tree.prune", "tree.split_points", "sde.branch_split"},
		"dance":         {"window.dance_num_train"},
		"dapo":          {"vlm.filter_groups"},
		"gigpo":         {"methods.adv_gigpo"},
		"pf_ppo":        {"methods.select_pf_ppo"},
		"dars":          {"methods.further_dars"},
		"ddpo":          {"train.ddpo_iteration"},
		"deepeyes":      {"vlm.rollout_deepeyes", "vlm.tool_deepeyes"},
		"flash_grpo":    {"loss.flash_grpo", "weight.flash_grpo", "window.flash_grpo"},
		"flow_dpo":      {"select.dpo_pairs"},
		"flow_grpo":     {"train.flow_grpo_iteration", "window.flow_grpo_num_train", "ema.flow_grpo"},
		"flow_grpo_wan": {"loss.flow_grpo_wan", "models.wan_flow_grpo_step"},
		"longcat":       {"loss.longcat"},
		"mini_o3":       {"vlm.adv_overturn", "vlm.filter_groups", "vlm.tool_minio3"},
		"mixgrpo":       {"window.mixgrpo", "rollout.mixgrpo", "combine.mixgrpo_advantage"},
		"mixgrpo_flash": {"window.mixgrpo", "rollout.mixgrpo", "combine.mixgrpo_advantage"},
		"nft":           {"train.nft_iteration", "ema.nft_decay"},
		"papo":          {"methods.loss_papo"},
		"g2rpo_a":       {"methods.guidance"},
		"pref_grpo":     {"combine.pref_grpo", "window.dance_num_train"},
		"tree_grpo":     {"methods.adv_tree_grpo"},
		"tempflow":      {"loss.tempflow", "sde.tempflow_branch"},
	}
}

// PresetCases are the operations of cmd/parity that hold a preset to published code.
func PresetCases(preset string) []string { return presetCases()[preset] }

func estimatorMethods() (all []Method) {
	for _, r := range advantage.Rules() {
		all = append(all, Method{Name: r.Name, Paper: r.Paper, Formula: r.Formula, Cases: r.Cases})
	}
	return all
}

func solverMethods() (all []Method) {
	for _, s := range sde.Solvers() {
		all = append(all, Method{Name: s.Name, Paper: s.Paper, Formula: s.Formula, Cases: s.Cases})
	}
	return all
}

func objectiveMethods() (all []Method) {
	for _, o := range loss.Objectives() {
		all = append(all, Method{Name: o.Name, Paper: o.Paper, Formula: o.Formula, Cases: o.Cases})
	}
	return all
}
