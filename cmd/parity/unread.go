package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// An argument that no adapter reads would let a case pass in another form than the recorded one: such a case fails,
// unless exemptions say why the argument changes nothing here.

// unread are the paths of a case's arguments and inputs that its op did not ask for and that are not exempt.
func (c recorded) unread() (names []string) {
	read := c.seen.ran.read
	// Indices are no part of a name that is exempt.
	var walk func(path, name string, v any)
	walk = func(path, name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				inner, within := path+"."+key, name+"."+key
				switch {
				case read[path+".*"] || v[key] == nil:
				case read[inner]:
					walk(inner, within, v[key])
				case !exempt(c.seen.Op, within, v[key]):
					names = append(names, inner)
				}
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), name, e)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.args)) {
		switch v := c.args[name]; {
		case v == nil:
		case read[name]:
			if !read[name+".*"] {
				walk(name, name, v)
			}
		case !exempt(c.seen.Op, name, v):
			names = append(names, name)
		}
	}
	return names
}

// An exemption is arguments that ops need not read: of any value, or of one.
type exemption struct {
	ops, names string // patterns of path.Match, with spaces between
	value      string // as JSON writes it; "": any
	why        string
}

const (
	ofFiles   = "the case's files say it, which are what is opened"
	twice     = "another form of an input that is read"
	elsewhere = "of a way that this case does not take: the function that was recorded does not read it here"
	remark    = "a remark on how the case came about"
	theOnly   = "the only form there is"
)

var exemptions = []exemption{
	{"models.* pipelines.*", "*_dtype *_dtypes hidden_act eos_rule scaling_factor shift_factor latents_mean latents_std r lora_alpha target_modules boundary_ratio", "", ofFiles},
	{"models.* pipelines.*", "scheduler diffusers zero_cond_t stored text prompt_template batch pictures last_image loaded_diffusers_*", "", ofFiles},
	{"pipelines.qwen_image", "drop_tokens", "34", theOnly},
	{"pipelines.qwen_image_edit*", "drop_tokens", "64", theOnly},
	{"pipelines.flux_kontext", "max_area", "", twice},
	{"pipelines.*", "in.latents_unpacked", "", twice},
	{"models.qwen25_vl_text", "padding_side", "\"right\"", theOnly},
	{"tokenizers.*", "pad_token eos_id unk_id", "", ofFiles},
	{"tokenizers.*", "*_differs", "", remark},
	{"qwen2vl.videoreward", "output_dim data_config.eval_dim", "", ofFiles},
	{"judge.videoalign", "norm.* use_norm", "", elsewhere},
	{"qwen2vl.hpsv3_prompt", "prompt", "", twice},
	{"neural.*", "pixel_values attention_mask input_ids long_ids long_mask", "", twice},
	{"flow.pair motion.clip", "frame_*.png", "", twice},
	{"boxes.coco_ap", "image_size images", "", elsewhere},
	{"combine.*", "scores.geneval.* group sampler global_std", "", elsewhere},
	{"adv.verl_omni", "global_std", "", elsewhere},
	{"data.parquet", "splits image_columns same_as_table", "", ofFiles},
	{"ema.*", "flat_steps initial_decay ramp_rate total_steps warmup_steps inv_gamma power", "", elsewhere},
	{"guidance.two_experts rollout.wan_sde", "A2 b2", "", elsewhere},
	{"loss.longcat", "sigma sigma_1", "", elsewhere},
	{"rollout.mixgrpo", "dpm.*", "", elsewhere},
	{"sampler.k_repeat", "dataset", "", twice},
	{"s*.* pipelines.wan", "*.prediction_type", "\"flow_prediction\"", theOnly},
	{"s*.* pipelines.wan", "*.use_flow_sigmas *.predict_x0 *.lower_order_final", "true", theOnly},
	{"pipelines.wan", "*.num_train_timesteps", "1000", theOnly},
	{"pipelines.wan", "*.final_sigmas_type", "\"zero\"", theOnly},
	{"solver.flow_unipc", "config.final_sigmas_type", "\"sigma_min\"", theOnly},
	{"sched.ddim_timesteps", "config.clip_sample", "false", theOnly},
	{"solver.*", "config.flow_shift config.solver_order", "", twice},
	{"sde.*", "dtype", "\"float32\"", theOnly},
	{"sde.*", "noise split_noise_scale", "", elsewhere},
	{"sde.ddim sde.flow_factory_unipc", "timestep prev_timestep timesteps", "", twice},
	{"sft.loss", "image.* max_pixels min_pixels template", "", twice},
	{"sft.loss vlm.*", "mm_token_type_ids attention_mask loss_mask", "", twice},
	{"tree.branch_rollout", "mix_*", "", elsewhere},
	{"video.*", "do_sample_frames fps video_fps min_frames", "", elsewhere},
	{"vlm.adv_*", "token_level_rewards rewards group values lam eps", "", elsewhere},
	{"vlm.answer_em", "golds", "", elsewhere},
	{"vlm.loss_openrlhf", "correction_range", "", elsewhere},
	{"vlm.rollout_*", "script_note log_prob_of_token_i_in_a_turn", "", remark},
	{"vlm.rope_index", "tokens_per_second", "2", theOnly},
	{"vlm.tool_*", "max_pixels min_pixels", "", elsewhere},
	{"window.*", "exp_decay_k exp_decay_thre_timestep prog_overlap_step", "", elsewhere},
	{"window.unirl", "strategy", "\"progressive\"", theOnly},
}

// exempt reports whether an op need not read an argument of a value.
func exempt(op, name string, v any) bool {
	matches := func(patterns, s string) bool {
		return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool { ok, _ := path.Match(p, s); return ok })
	}
	return slices.ContainsFunc(exemptions, func(e exemption) bool {
		if !matches(e.ops, op) || !matches(e.names, name) {
			return false
		}
		text, err := json.Marshal(v)
		return e.value == "" || err == nil && e.value == string(text)
	})
}
