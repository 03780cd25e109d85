package experiment

import (
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What is known of the table of names beside each card: docs/methods.md is written from it.

// A Method is a name of the sections advantages, objectives and solvers.
type Method struct {
	Kind, Name string
	Paper      string   // whose it is
	Formula    string   // what is computed, in a line
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
