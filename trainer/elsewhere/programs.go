package elsewhere

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// Settings with a translation of their own, by program.

// flowGRPO translates config/grpo.py and dpo.py, for the scripts train_sd3.py, train_flux.py and their kin.
func (t *translation) flowGRPO() error {
	steps := t.number("sample.num_steps", 10)
	clips := strings.Contains(t.text("pretrained.model"), "Wan")
	window, own := t.get("sample.sde_window_size")
	size, _ := number(window.value)
	if own && strings.HasPrefix(window.at, "base.py") { // which scripts without windows do not read
		own = false
	}
	few, isFew := t.get("sample.train_num_steps")
	dpo := t.text("train.algorithm") == "dpo"
	switch {
	case strings.HasSuffix(t.path, "sft.py") || t.text("train.algorithm") == "sft":
		return errors.New("fine-tuning on its own best samples: write loss.objective = \"sft\" with advantage.estimator = \"best\"")
	case dpo:
		t.preset = "flow_dpo"
	case clips:
		t.preset = "flow_grpo_wan"
	case own && size > 0 || isFew:
		t.preset = "flow_grpo_fast"
	case strings.Contains(filepath.Base(t.path), "guard"):
		t.preset = "grpo_guard"
	default:
		t.preset = "flow_grpo"
	}
	t.set("run.name", strings.ReplaceAll(t.name, "_", "-"))
	t.by("run_name", func(s setting) {
		if name := t.text("run_name"); name != "" {
			t.set("run.name", name)
		}
	})
	t.by("pretrained.model", t.model)
	t.by("mixed_precision", t.precision)
	t.by("use_lora", func(s setting) { t.set("model.train", map[bool]string{true: "lora", false: "full"}[s.value == true]) })
	if !clips {
		t.by("resolution", func(s setting) { t.side("sampler", s) })
	} else {
		t.by("resolution", func(s setting) {})
	}
	for _, key := range []string{"width", "height", "frames"} {
		t.by(key, func(s setting) { t.set("sampler."+key, s.value) })
	}
	t.by("train.lora_path", func(s setting) {
		if s.value != nil {
			t.set("model.adapter", s.value)
		}
	})
	t.by("sample.global_std", t.spread)
	t.by("sample.same_latent", func(s setting) { t.set("rollout.shared_noise", s.value == true) })
	t.by("per_prompt_stat_tracking", func(s setting) {
		if s.value != true {
			t.note(s, "without groups: advantages here compare samples of a prompt")
		}
	})
	t.by("train.ema", func(s setting) {
		if s.value != true {
			t.set("optim.ema", int64(0))
			t.set("evaluate.weights", "current")
		}
	})
	t.by("train.cfg", func(s setting) {
		if s.value == true == (t.number("sample.guidance_scale", 1) <= 1) {
			t.note(s, "guidance of training is that of sampling: sampler.guidance")
		}
	})
	t.by("sample.eval_guidance_scale", func(s setting) {
		if t.number(s.name, 0) != t.number("sample.guidance_scale", 0) && !strings.HasPrefix(s.at, "base.py") {
			t.note(s, "evaluations have sampler.guidance; evaluate.guided measures another one beside")
		}
	})
	t.by("train.adam_beta1", func(s setting) { t.set("optim.betas", []any{s.value, t.number("train.adam_beta2", 0.999)}) })
	t.by("train.adam_beta2", func(s setting) {})
	t.by("train.beta", func(s setting) {
		if dpo {
			t.set("loss.beta", s.value)
		} else {
			t.set("loss.kl.weight", s.value)
		}
	})
	if dpo { // which reads neither
		for _, name := range []string{"train.clip_range", "train.adv_clip_max", "sample.global_std", "sample.noise_level", "train.timestep_fraction"} {
			t.by(name, func(s setting) {})
		}
		t.keys = slices.DeleteFunc(t.keys, func(key string) bool { return key == "advantage.estimator" })
	}
	t.windowed(steps, size, own, few, isFew, dpo)
	t.batches()
	t.lists()
	t.by("reward_fn", func(s setting) {
		all, _ := s.value.(*table)
		if all == nil {
			return
		}
		for _, name := range all.names {
			weight, _ := number(all.of[name])
			t.reward(s, name, weight)
		}
	})
	return t.rewarded()
}

// windowed translates the steps that are trained.
func (t *translation) windowed(steps, size float64, own bool, few setting, isFew, dpo bool) {
	t.by("sample.sde_type", func(s setting) {
		if s.value == "cps" {
			t.set("sampler.solver", "cps")
		}
	})
	from, to := 0.0, steps/2
	t.by("sample.sde_window_range", func(s setting) {
		if pair, _ := s.value.([]any); len(pair) == 2 {
			from, _ = number(pair[0])
			to, _ = number(pair[1])
		}
	})
	t.by("sample.sde_window_size", func(setting) {})
	t.by("sample.train_num_steps", func(setting) {})
	switch {
	case dpo:
	case own && size > 0:
		t.set("sampler.window.kind", "random")
		t.set("sampler.window.size", int64(size))
		t.set("sampler.window.from", int64(from))
		t.set("sampler.window.drop", int64(max(0, steps-to)))
		t.by("train.timestep_fraction", func(setting) {})
	case isFew:
		t.set("sampler.window.kind", "random")
		t.set("sampler.window.size", few.value)
		t.by("train.timestep_fraction", func(s setting) {})
	default:
		t.by("train.timestep_fraction", func(s setting) {
			t.set("sampler.window.kind", "fraction")
			t.set("sampler.window.fraction", s.value)
		})
	}
}

// batches translates the prompts of an iteration and its updates. The number of cards is that of the function's own
// gpu_number, where it has one.
func (t *translation) batches() {
	cards, ok := number(t.locals["gpu_number"])
	if !ok {
		cards = 1
		t.notes = append(t.notes, "prompts of an iteration: counted for one card; the command that starts training has their number")
	}
	batch := t.number("sample.mini_num_image_per_prompt", t.number("sample.train_batch_size", 1))
	batches := t.number("sample.num_batches_per_epoch", 1) * t.number("sample.sample_time_per_prompt", 1)
	group := t.number("sample.num_image_per_prompt", 1)
	t.set("rollout.prompts_per_iteration", int64(max(1, math.Round(cards*batch*batches/group))))
	t.set("rollout.group", int64(group))
	updates := max(1, math.Floor(batches/t.number("train.gradient_accumulation_steps", 1)))
	t.set("optim.updates", int64(updates))
	if updates > 1 {
		t.set("optim.split", true)
	}
	for _, name := range []string{"num_batches_per_epoch", "num_image_per_prompt", "train_batch_size", "mini_num_image_per_prompt", "sample_time_per_prompt", "batch_size", "test_batch_size"} {
		t.by("sample."+name, func(setting) {})
	}
	t.by("train.batch_size", func(setting) {})
	t.by("train.gradient_accumulation_steps", func(setting) {})
	t.by("train.num_inner_epochs", func(s setting) {
		if n, _ := number(s.value); n != 1 {
			t.note(s, "each inner epoch is optim.updates more, without optim.split")
		}
	})
}

// lists translates the prompts.
func (t *translation) lists() {
	t.by("prompt_fn", func(s setting) {})
	t.by("dataset", func(s setting) {
		folder, _ := s.value.(string)
		ending := ".txt"
		if fn := t.text("prompt_fn"); fn == "geneval" || strings.Contains(folder, "edit") || strings.Contains(folder, "repair") {
			ending = "_metadata.jsonl"
		}
		at := "flow_grpo/" + strings.TrimPrefix(folder, "/")
		t.set("rollout.prompts", at+"/train"+ending)
		t.set("evaluate.prompts", at+"/test"+ending)
	})
}

// flowFactory translates examples of Flow-Factory's.
func (t *translation) flowFactory() error {
	steps := t.number("train.num_inference_steps", 10)
	sdes, _ := t.get("scheduler.num_sde_steps")
	size, windowed := number(sdes.value)
	trainer := t.text("train.trainer_type")
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
		return errors.New("train.trainer_type is missing\nhint: Flow-Factory's files say there grpo, nft, awm or dpo")
	default:
		return fmt.Errorf("trainer_type %q has no preset here: 'darkroom list objectives' has %s, which is written by hand", trainer, trainer)
	}
	name := strings.TrimSuffix(filepath.Base(t.path), filepath.Ext(t.path))
	t.set("run.name", strings.Trim(strings.NewReplacer("_", "-", ".", "-").Replace(t.text("model.model_type")+"-"+trainer+"-"+name), "-"))
	t.by("log.run_name", func(s setting) {
		if text, ok := s.value.(string); ok {
			t.set("run.name", text)
		}
	})
	if _, ok := t.get("train.max_epochs"); !ok {
		t.set("run.iterations", int64(600))
		t.notes = append(t.notes, "run.iterations: there a run goes on until it is stopped")
	}
	t.by("train.trainer_type", func(setting) {})
	t.by("model.model_type", func(setting) {})
	t.by("model.model_name_or_path", t.model)
	t.by("mixed_precision", t.precision)
	t.by("model.finetune_type", func(s setting) { t.set("model.train", s.value) })
	t.by("model.lora_alpha", func(s setting) { t.set("model.lora.alpha", s.value) })
	t.by("model.target_modules", func(s setting) {
		if list, ok := s.value.([]any); ok {
			t.set("model.lora.targets", list)
		} else if s.value != "default" {
			t.note(s, "layers are named one by one: model.lora.targets")
		}
	})
	t.by("train.resolution", func(s setting) { t.side("sampler", s) })
	t.by("eval.resolution", func(s setting) { t.side("evaluate", s) })
	t.by("train.num_frames", func(s setting) { t.set("sampler.frames", s.value) })
	t.by("eval.num_frames", func(s setting) { t.set("evaluate.frames", s.value) })
	t.by("train.guidance_scale", func(s setting) { t.set("sampler.guidance", s.value) })
	t.by("eval.guidance_scale", func(s setting) {
		if t.number(s.name, 0) != t.number("train.guidance_scale", 0) {
			t.note(s, "evaluations have sampler.guidance; evaluate.guided measures another one beside")
		}
	})
	t.by("eval.num_inference_steps", func(s setting) { t.set("sampler.eval_steps", s.value) })
	t.by("train.num_inference_steps", func(s setting) { t.set("sampler.steps", s.value) })
	t.by("eval.eval_freq", func(s setting) { t.set("evaluate.every", s.value) })
	t.by("log.save_freq", func(s setting) { t.set("checkpoint.every", s.value) })
	t.by("train.seed", func(s setting) { t.set("run.seed", s.value) })
	t.by("train.global_std", t.spread)
	t.by("train.advantage_aggregation", func(s setting) {
		switch s.value {
		case "sum":
			t.set("advantage.combine", "rewards")
		case "gdpo":
			t.set("advantage.combine", "gdpo")
		default:
			t.note(s, "here advantage.combine")
		}
	})
	t.by("train.adam_betas", func(s setting) { t.set("optim.betas", s.value) })
	for there, here := range map[string]string{"learning_rate": "lr", "adam_weight_decay": "weight_decay", "adam_epsilon": "eps", "max_grad_norm": "grad_clip", "ema_decay": "ema"} {
		t.by("train."+there, func(s setting) { t.set("optim."+here, s.value) })
	}
	t.by("train.gradient_step_per_epoch", func(s setting) {
		t.set("optim.updates", s.value)
		if n, _ := number(s.value); n > 1 {
			t.set("optim.split", true)
		}
	})
	t.by("train.gradient_accumulation_steps", func(s setting) {
		if s.value != "auto" {
			t.note(s, "gradient_step_per_epoch is written, which it overrides there")
		}
	})
	for _, beta := range []string{"train.nft_beta", "train.beta", "train.dpo_beta"} {
		t.by(beta, func(s setting) { t.set("loss.beta", s.value) })
	}
	t.by("train.kl_type", func(s setting) {
		if t.number("train.kl_beta", 0) == 0 {
			return
		}
		switch s.value {
		case "v-based":
			t.set("loss.kl.estimator", "velocity")
		case "x-based":
			t.set("loss.kl.estimator", "mean")
		default:
			t.note(s, "here loss.kl.estimator")
		}
	})
	t.by("train.kl_beta", func(s setting) { t.set("loss.kl.weight", s.value) })
	if trainer == "grpo" || trainer == "awm" {
		t.by("train.clip_range", func(s setting) { t.set("loss.clip_range", s.value) })
	}
	if trainer == "grpo" {
		t.by("scheduler.dynamics_type", func(s setting) {
			name, _ := s.value.(string)
			solver, ok := map[string]string{"Flow-SDE": "flow-sde", "CPS": "cps", "Dance-SDE": "dance"}[name]
			if !ok {
				t.note(s, "grpo needs steps with noise: sampler.solver")
				return
			}
			t.set("sampler.solver", solver)
		})
		t.by("scheduler.noise_level", func(s setting) { t.set("sampler.noise", s.value) })
	} else {
		t.by("scheduler.dynamics_type", func(s setting) {
			if s.value != "ODE" {
				t.note(s, "the preset's solver is written")
			}
		})
	}
	t.by("scheduler.num_sde_steps", func(setting) {})
	t.by("scheduler.sde_steps", func(s setting) {
		list, _ := s.value.([]any)
		if !windowed || len(list) == 0 {
			return
		}
		least, most := steps, 0.0
		for _, x := range list {
			n, _ := number(x)
			least, most = min(least, n), max(most, n)
		}
		t.set("sampler.window.kind", "random")
		t.set("sampler.window.size", int64(size))
		t.set("sampler.window.from", int64(least))
		t.set("sampler.window.drop", int64(max(0, steps-1-most)))
		if size > 1 {
			t.note(s, "there steps of the list are drawn one by one; a window here has steps in a row")
		}
	})
	t.by("data.dataset_dir", func(s setting) {
		folder := "Flow-Factory/" + t.text(s.name)
		switch filepath.Base(folder) {
		case "pickscore", "ocr", "geneval": // flow_grpo's lists
			folder = "flow_grpo/dataset/" + filepath.Base(folder)
		}
		t.set("rollout.prompts", folder+"/train.txt")
		t.set("evaluate.prompts", folder+"/test.txt")
	})
	t.by("rewards", func(s setting) {
		list, ok := s.value.([]any)
		if !ok {
			list = []any{s.value}
		}
		for _, x := range list {
			one, _ := x.(*table)
			if one == nil {
				continue
			}
			name, _ := one.of["reward_model"].(string)
			weight, ok := number(one.of["weight"])
			if !ok {
				weight = 1
			}
			t.reward(setting{name: "rewards", value: name}, name, weight)
		}
	})
	return t.rewarded()
}
