package elsewhere

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Translations of several settings together: preset, steps, batches, lists and rewards of each program.

// flowGRPO translates config/grpo.py and dpo.py, for the scripts train_sd3.py, train_flux.py and their kin.
func (t *translation) flowGRPO() error {
	if !t.reads("pretrained.model") {
		return t.wrong
	}
	clips := strings.Contains(t.text("pretrained.model"), "Wan")
	window, own := t.get("sample.sde_window_size")
	if filepath.Base(window.at.file) == "base.py" { // which scripts without windows do not read
		own = false
	}
	own = own && t.number("sample.sde_window_size", 0) > 0
	_, few := t.get("sample.train_num_steps")
	algorithm, _ := t.get("train.algorithm")
	dpo := algorithm.value == "dpo"
	switch {
	case filepath.Base(t.path) == "sft.py" || algorithm.value == "sft":
		return t.at.mistake("fine-tuning on its own best samples is not translated",
			"write loss.objective = \"sft\" with advantage.estimator = \"best\"")
	case dpo:
		t.preset = "flow_dpo"
	case clips:
		t.preset = "flow_grpo_wan"
	case own || few:
		t.preset = "flow_grpo_fast"
	case strings.Contains(filepath.Base(t.path), "guard"):
		t.preset = "grpo_guard"
	default:
		t.preset = "flow_grpo"
	}
	t.set("run.name", strings.ReplaceAll(t.name, "_", "-"))
	t.endless("num_epochs")
	if clips {
		t.takes("resolution")
	}
	if dpo {
		t.by("train.beta", func(s setting) { t.set("loss.beta", s.value) })
		t.takes("train.clip_range", "train.adv_clip_max", "train.timestep_fraction", "sample.global_std",
			"sample.noise_level", "sample.sde_type", "sample.sde_window_range", "sample.sde_window_size",
			"sample.train_num_steps")
	} else {
		t.windowed(own, few)
	}
	t.batches()
	t.lists()
	t.by("reward_fn", func(s setting) {
		all, ok := s.value.(*table)
		if !ok {
			t.mistake(s, "rewards with weights are needed", "")
			return
		}
		for _, name := range all.names {
			t.reward(setting{name: s.name, value: all, at: s.at}, name, all.of[name])
		}
	})
	return nil
}

// endless ends a run that goes on there until it is stopped.
func (t *translation) endless(name string) {
	if s, _ := t.get(name); s.value == nil || s.value == any(unknown{}) {
		t.set("run.iterations", int64(600))
		t.notes = append(t.notes, "run.iterations: 600 are written; there a run goes on until it is stopped")
	}
}

// windowed translates the steps that are trained.
func (t *translation) windowed(own, few bool) {
	known := true
	if steps, _ := t.get("sample.num_steps"); own {
		known = steps.value != any(unknown{})
	}
	switch known = t.takes("sample.sde_window_range", "sample.sde_window_size", "sample.train_num_steps") && known; {
	case !known:
		t.takes("train.timestep_fraction")
	case own:
		steps := t.count("sample.num_steps", 10)
		from, to := 0.0, math.Floor(steps/2)
		if s, ok := t.get("sample.sde_window_range"); ok {
			if pair := numbers(s.value); len(pair) == 2 && pair[0] >= 0 && pair[0] < pair[1] && pair[1] <= 1e6 {
				from, to = pair[0], pair[1]
			} else {
				t.mistake(s, "two steps are needed, the lower one first", "")
			}
		}
		t.set("sampler.window.kind", "random")
		t.set("sampler.window.size", int64(t.count("sample.sde_window_size", 1)))
		t.set("sampler.window.from", int64(from))
		t.set("sampler.window.drop", int64(max(0, steps-to)))
		t.takes("train.timestep_fraction")
	case few:
		t.set("sampler.window.kind", "random")
		t.set("sampler.window.size", int64(t.count("sample.train_num_steps", 1)))
		t.takes("train.timestep_fraction")
	default:
		t.by("train.timestep_fraction", func(s setting) {
			t.set("sampler.window.kind", "fraction")
			t.set("sampler.window.fraction", t.number(s.name, 1))
		})
	}
}

// numbers are a list's; nil where another value is among them.
func numbers(v any) (all []float64) {
	list, _ := v.([]any)
	for _, x := range list {
		n, ok := number(x)
		if !ok {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// batches translates the prompts of an iteration and its updates. The number of cards is gpu_number of the function,
// or of the one that it calls.
func (t *translation) batches() {
	known := t.takes("sample.mini_num_image_per_prompt", "sample.train_batch_size", "sample.num_batches_per_epoch",
		"sample.sample_time_per_prompt", "sample.num_image_per_prompt", "train.gradient_accumulation_steps")
	t.takes("sample.batch_size", "sample.test_batch_size", "train.batch_size")
	t.by("train.num_inner_epochs", func(s setting) {
		if t.number(s.name, 1) != 1 {
			t.note(s, "each inner epoch is optim.updates more, without optim.split")
		}
	})
	if !known {
		t.notes = append(t.notes, "prompts of an iteration, rollout.group and optim.updates: not known without these values")
		return
	}
	cards, ok := number(t.cards)
	if !ok || cards < 1 || cards > 1e6 {
		cards = 1
		t.notes = append(t.notes,
			"prompts of an iteration: counted for one card; the command that starts training has their number")
	}
	batch := t.count("sample.mini_num_image_per_prompt", t.count("sample.train_batch_size", 1))
	batches := t.count("sample.num_batches_per_epoch", 1) * t.count("sample.sample_time_per_prompt", 1)
	group := t.count("sample.num_image_per_prompt", 1)
	prompts := max(1, math.Round(cards*batch*batches/group))
	if s, _ := t.get("sample.num_batches_per_epoch"); prompts > 1e9 {
		t.mistake(s, "prompts of an iteration are more than a billion", "")
		return
	}
	t.set("rollout.prompts_per_iteration", int64(prompts))
	t.set("rollout.group", int64(group))
	updates := max(1, math.Floor(batches/t.count("train.gradient_accumulation_steps", 1)))
	t.set("optim.updates", int64(updates))
	if updates > 1 {
		t.set("optim.split", true)
	}
}

// lists translates the prompts. Scripts of edits read metadata always.
func (t *translation) lists() {
	t.takes("prompt_fn")
	t.by("dataset", func(s setting) {
		model, ending := t.text("pretrained.model"), ".txt"
		if t.text("prompt_fn") == "geneval" || strings.Contains(model, "Kontext") || strings.Contains(model, "Edit") {
			ending = "_metadata.jsonl"
		}
		if t.text(s.name) == "" {
			t.mistake(s, "no folder of prompts", "")
			return
		}
		t.prompts("flow_grpo", t.text(s.name), ending)
	})
}

// prompts writes the lists of a folder, which a program's repository has unless its path is rooted.
func (t *translation) prompts(repository, folder, ending string) {
	if !rooted(folder) {
		folder = path.Join(repository, filepath.ToSlash(folder))
	}
	t.set("rollout.prompts", folder+"/train"+ending)
	t.set("evaluate.prompts", folder+"/test"+ending)
}

// defaults are Flow-Factory's where a preset here may have others.
var defaults = []setting{
	{name: "train.advantage_aggregation", value: "gdpo"},
	{name: "train.global_std", value: true},
}

// flowFactory translates examples of Flow-Factory's.
func (t *translation) flowFactory() error {
	if !t.reads("model.model_type", "model.model_name_or_path") {
		return t.wrong
	}
	trainer := t.text("train.trainer_type")
	at, _ := t.get("train.trainer_type")
	switch {
	case trainer == "grpo" && strings.Contains(t.text("model.model_type"), "wan"):
		t.preset = "flow_grpo_wan"
		t.set("sampler.solver", "flow-sde")
	case trainer == "grpo":
		t.preset = "flow_grpo_fast"
	case trainer == "nft" || trainer == "awm":
		t.preset = trainer
	case trainer == "dpo":
		t.preset = "flow_dpo"
	case trainer == "":
		return t.at.mistake("train.trainer_type is missing", "Flow-Factory's files say there grpo, nft, awm or dpo")
	default:
		return at.at.mistake(fmt.Sprintf("trainer_type %q has no preset here", trainer),
			"'darkroom list objectives' has "+trainer+", which is written by hand")
	}
	for _, s := range defaults {
		if there, ok := t.get(s.name); !ok || there.value == nil {
			t.settings = append(slices.DeleteFunc(t.settings, func(other setting) bool { return other.name == s.name }), s)
		}
	}
	name := strings.TrimSuffix(filepath.Base(t.path), filepath.Ext(t.path))
	name = t.text("model.model_type") + "-" + trainer + "-" + name
	t.set("run.name", strings.Trim(strings.NewReplacer("_", "-", ".", "-").Replace(name), "-"))
	t.endless("train.max_epochs")
	t.takes("train.trainer_type", "model.model_type")
	t.by("train.gradient_accumulation_steps", func(s setting) {
		if s.value != "auto" {
			t.note(s, "gradient_step_per_epoch is written, which it overrides there")
		}
	})
	switch trainer {
	case "grpo":
		t.drawn()
	case "awm":
		if t.count("train.num_inference_steps", 10) < 12 {
			t.set("loss.time_range", []any{int64(0), int64(0)})
			t.notes = append(t.notes, "loss.time_range: all steps; the preset's range ends at step 12")
		}
	case "dpo": // which compares the best sample with the worst
		t.takes("train.global_std")
	}
	if trainer != "grpo" {
		for _, key := range []string{"dynamics_type", "noise_level", "num_sde_steps", "sde_steps"} {
			t.by("scheduler."+key, func(s setting) {
				if s.value != "ODE" {
					t.note(s, "the preset's solver is written")
				}
			})
		}
	}
	t.by("data.dataset_dir", t.folder)
	t.by("rewards", func(s setting) {
		list, ok := s.value.([]any)
		if !ok {
			list = []any{s.value}
		}
		for _, x := range list {
			one, _ := x.(*table)
			if one == nil {
				t.mistake(s, "each reward is a mapping with reward_model", "")
				continue
			}
			name, ok := one.of["reward_model"].(string)
			if !ok {
				t.mistake(s, "reward_model is missing", "")
				continue
			}
			weight, ok := one.of["weight"]
			if !ok {
				weight = int64(1)
			}
			t.reward(setting{name: s.name, value: name, at: one.at["reward_model"]}, name, weight)
		}
	})
	return nil
}

// drawn translates the steps that draw noise: num_sde_steps of sde_steps, each for itself.
func (t *translation) drawn() {
	if !t.takes("scheduler.num_sde_steps", "scheduler.sde_steps") {
		return
	}
	steps := t.count("train.num_inference_steps", 10)
	s, _ := t.get("scheduler.sde_steps")
	list := numbers(s.value)
	if s.value == nil { // all but the last
		for i := range min(int(steps), 1000) - 1 {
			list = append(list, float64(i))
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	for i, n := range list {
		if n != math.Trunc(n) || n < 0 || n >= steps {
			t.mistake(s, fmt.Sprintf("steps from 0 to %g are needed", steps-1), "")
			return
		}
		if n != list[0]+float64(i) {
			t.note(s, "steps not in a row are no window here: which are trained is not known, and the preset's are written")
			return
		}
	}
	size := float64(len(list))
	if number, ok := t.get("scheduler.num_sde_steps"); !ok {
		size = 1
	} else if number.value != nil {
		size = min(size, t.count(number.name, 1))
	}
	if n, _ := t.get("train.num_inference_steps"); s.value == nil && len(list) == 0 {
		t.mistake(n, "2 steps or more are needed", "")
		return
	}
	if len(list) == 0 {
		t.mistake(s, "a list of steps is needed", "")
		return
	}
	drop := int64(steps - 1 - list[len(list)-1])
	if all := float64(len(list)); list[0] == 0 && size > 1 && size < all {
		t.set("sampler.window.kind", "subset")
		t.set("sampler.window.fraction", math.Ceil(size/all*1e4)/1e4) // a share that is cut to size steps
		t.set("sampler.window.drop", drop)
		return
	}
	t.set("sampler.window.kind", "random")
	t.set("sampler.window.size", int64(size))
	t.set("sampler.window.from", int64(list[0]))
	t.set("sampler.window.drop", drop)
	if size > 1 && size < float64(len(list)) {
		t.note(s, "there steps of the list are drawn one by one; a window here has steps in a row")
	}
}

// listed are Flow-Factory's folders, with the ending of their lists.
var listed = map[string]string{
	"vid_prompt": ".txt", "t2is": ".jsonl", "t2is_neg": ".jsonl", "sudoku": ".jsonl", "sharegpt4o_image_mini": ".jsonl",
}

// folder translates a folder of prompts, in which Flow-Factory reads train.jsonl before train.txt.
func (t *translation) folder(s setting) {
	folder, ok := s.value.(string)
	if !ok || folder == "" {
		t.mistake(s, "no folder of prompts", "")
		return
	}
	name := path.Base(filepath.ToSlash(folder))
	if !rooted(folder) {
		switch name {
		case "pickscore", "ocr": // flow_grpo's lists
			t.prompts("flow_grpo", "dataset/"+name, ".txt")
			return
		case "geneval":
			t.prompts("flow_grpo", "dataset/"+name, "_metadata.jsonl")
			return
		}
	}
	ending, known := listed[name]
	for _, e := range []string{".txt", ".jsonl"} {
		if _, err := os.Stat(filepath.Join(folder, "train"+e)); err == nil {
			ending, known = e, true
		}
	}
	if !known {
		ending = ".txt"
		t.note(s, "train.txt and test.txt are written; there train.jsonl and test.jsonl are read where the folder has them")
	}
	t.prompts("Flow-Factory", folder, ending)
}
