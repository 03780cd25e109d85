package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A recorded case is the inputs of an op and its expected outputs.
type recorded struct {
	file string
	seen *Case
	args map[string]any // the op's expected inputs
	want map[string]any
	tols tolerances
}

// parse reads one case of either form. Where it fails, the case's name is kept
// if it was found.
func parse(raw []byte, dir string, tensor tensorSource) (recorded, error) {
	var c recorded
	v, err := decode(raw)
	if err != nil {
		var named struct{ Name string }
		if json.Unmarshal(raw, &named) == nil {
			c.seen = newCase(named.Name, "", dir, nil)
		}
		return c, err
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return c, errors.New("is not an object")
	}
	name, _ := doc["name"].(string)
	op, _ := doc["op"].(string)
	c.seen = newCase(name, op, dir, inputs(doc))
	c.seen.tensor, c.seen.raw = tensor, raw
	c.args = arguments(doc)
	if name == "" || op == "" {
		return c, errors.New(`needs "name" and "op", both texts`)
	}
	if c.tols, err = readTolerances(doc); err != nil {
		return c, err
	}
	c.want, err = outputs(doc, tensor)
	c.tols.byKind(doc, c.want)
	c.seen.want = c.want
	if err == nil && len(c.want) == 0 && c.seen.in["sha256"] == nil { // a digest of values is one
		err = errors.New(`records no output: "out" is empty or missing`)
	}
	return c, err
}

// inputs are the objects "in" and "args" of a case, the columns of its table,
// and for the rest the fields of the case itself.
func inputs(doc map[string]any) map[string]any {
	in := map[string]any{}
	for k, v := range doc {
		if !slices.Contains([]string{"in", "out", "args", "name", "op", "tols", "note", "source"}, k) {
			in[k] = v
		}
	}
	for k, column := range columns(doc) {
		in[k] = column
	}
	for _, part := range []string{"args", "in"} {
		m, _ := doc[part].(map[string]any)
		for k, v := range m {
			in[k] = v
		}
	}
	return in
}

// arguments are the objects "in" and "args" of a case, and the tensors that the list "in" names.
func arguments(doc map[string]any) map[string]any {
	all := map[string]any{}
	for _, part := range []string{"args", "in"} {
		m, _ := doc[part].(map[string]any)
		maps.Copy(all, m)
		list, _ := doc[part].([]any)
		for _, n := range list {
			if name, ok := n.(string); ok {
				all[name] = true
			}
		}
	}
	return all
}

// columns turns a case's table, a list of objects, into a list a field.
func columns(doc map[string]any) map[string]any {
	table, _ := doc["table"].([]any)
	all := map[string]any{}
	for i, row := range table {
		fields, _ := row.(map[string]any)
		for k, v := range fields {
			column, ok := all[k].([]any)
			if !ok {
				column = make([]any, len(table))
			}
			column[i] = v
			all[k] = column
		}
	}
	return all
}

// outputs are the object "out", or the names in the lists "out", "grad", "pre" and "post" (before and after a network):
// a tensor, a column of the table, or a field of the case. In an object, "tensor" may name one. The object "scores" is
// an output.
func outputs(doc map[string]any, tensor tensorSource) (map[string]any, error) {
	if m, ok := doc["out"].(map[string]any); ok {
		name, ok := m["tensor"].(string)
		if !ok {
			return m, nil
		}
		a, found, err := tensor(name)
		if err == nil && found {
			m["tensor"] = a
		}
		return m, err
	}
	table := columns(doc)
	want := map[string]any{}
	lists := map[string][]any{}
	for _, list := range []string{"out", "grad", "pre", "post"} {
		lists[list], _ = doc[list].([]any)
	}
	if scores, ok := doc["scores"].(map[string]any); ok {
		want["scores"], lists["in"] = scores, prepared(doc)
	}
	for _, list := range []string{"out", "grad", "pre", "post", "in"} {
		for _, n := range lists[list] {
			name, ok := n.(string)
			if !ok {
				return nil, fmt.Errorf("%q holds what is not a name", list)
			}
			a, found, err := tensor(name)
			if err != nil {
				return nil, err
			}
			value := any(a)
			if !found {
				value, found = table[name]
			}
			if !found {
				value, found = doc[name]
			}
			if !found {
				return nil, fmt.Errorf("output %q is not recorded", name)
			}
			want[name] = value
		}
	}
	return want, nil
}

// readTolerances reads "tol", for all names or name by name, and "tols", name by
// name. Other fields of "tol" are an op's own business.
func readTolerances(doc map[string]any) (tolerances, error) {
	t := tolerances{byName: map[string]tolerance{}}
	var err error
	if t.all, err = readTolerance("tol", doc["tol"]); err != nil {
		return t, err
	}
	for _, part := range []string{"tol", "tols"} {
		names, _ := doc[part].(map[string]any)
		for name, v := range names {
			if _, ok := v.(map[string]any); !ok && part == "tol" {
				continue
			}
			if t.byName[name], err = readTolerance(part+"."+name, v); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func readTolerance(name string, v any) (t tolerance, err error) {
	read := func(v any) float64 {
		x, ok := float(v)
		if v != nil && (!ok || !(x >= 0)) {
			err = fmt.Errorf("%s: a tolerance is {\"abs\": x, \"rel\": y} with numbers that are not negative", name)
		}
		return x
	}
	if m, ok := v.(map[string]any); ok {
		return tolerance{Abs: read(m["abs"]), Rel: read(m["rel"])}, err
	}
	return tolerance{Abs: read(v)}, err
}

// Cases of rewards give tolerances by the kind of an output: "embeds_rel_norm" bounds |got - want| / |want| of whole
// tensors, "scores_abs" every score. They also list among their inputs a reward's own inputs from its pictures and
// prompts (pixel_values, input_ids): it is held to these, too.

// kinds says which outputs a tolerance's first word is for, by parts of their names.
var kinds = map[string][]string{
	"scores": {"scores"}, "embeds": {"embeds", "features"}, "grad": {"grad"}, "pixel": {"pixel_values"}, "logits": {"logits"},
}

// byKind reads such tolerances for the outputs.
func (t *tolerances) byKind(doc map[string]any, outputs map[string]any) {
	said, _ := doc["tol"].(map[string]any)
	for key, v := range said {
		x, ok := float(v)
		word, form, found := strings.Cut(key, "_")
		if !ok || !(x >= 0) || !found || kinds[word] == nil {
			continue
		}
		for name := range outputs {
			for _, part := range kinds[word] {
				switch {
				case !strings.Contains(name, part) || word != "grad" && strings.HasPrefix(name, "grad"):
				case form == "abs":
					t.byName[name] = tolerance{Abs: x}
				case form == "rel_norm":
					t.byName[name] = tolerance{Norm: x}
				}
			}
		}
		if key == "logits_abs" { // logits are 100 times products of unit vectors with these
			t.byName["classifier"] = tolerance{Abs: x / 100}
		}
	}
}

// prepared are the names among a case's inputs that a reward makes itself, where the case
// has scores: pictures, if it says how near they must be, and tokens, which are exact.
func prepared(doc map[string]any) []any {
	tol, _ := doc["tol"].(map[string]any)
	names, _ := doc["in"].([]any)
	var made []any
	for _, n := range names {
		name, _ := n.(string)
		_, near := tol["pixel_abs"]
		if strings.HasSuffix(name, "_ids") || strings.HasSuffix(name, "_mask") || near && strings.Contains(name, "pixel_values") {
			made = append(made, n)
		}
	}
	return made
}

// An argument that no adapter reads would let a case pass in another form than the recorded one: such a case fails,
// unless exemptions say why the argument changes nothing here.

// unread are the paths of a case's arguments and inputs that its op did not ask for and that are not exempt.
func (c recorded) unread() (names []string) {
	read := c.seen.ran.read
	// The name of an exemption has no indices.
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
