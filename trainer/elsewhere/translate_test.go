package elsewhere

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// written are files in a folder of the test.
func written(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// translated is a file's translation, which package experiment reads.
func translated(t *testing.T, from string) string {
	text, err := Translate(from)
	if err != nil {
		t.Errorf("%s: %v", from, err)
		return ""
	}
	if _, err := experiment.Parse("translated.toml", text, nil); err != nil {
		t.Errorf("%s: %v\n%s", from, err, text)
	}
	return string(text)
}

// TestTranslate: settings with the same meaning are written, and the result is read; all others are in comments.
func TestTranslate(t *testing.T) {
	for from, says := range map[string][]string{
		"testdata/mine.py:words": {`preset = "flow_grpo"`, "iterations = 300", `path = "models/stable-diffusion-3.5-medium"`,
			"prompts_per_iteration = 16", "group = 16", "updates = 2", "split = true", "kl.weight = 0.04", "clip_range = 0.0001",
			`prompts = "flow_grpo/dataset/ocr/train.txt"`, `path = "tesseract"`, "seed = 7",
			"reward deqa has no counterpart", "save_dir = \"logs/7\": here --out", "odd = ?: its value is not read",
			"train.adam_epsilon = ?: its value is not read",
			"not read: mine.py:30: for i in range(3):: a block, which is not run"},
		"testdata/mine.py:fast": {`preset = "flow_grpo_fast"`, `window.kind = "random"`, "window.size = 3", "window.from = 0",
			"window.drop = 5", `solver = "cps"`, "prompts_per_iteration = 16"},
		"testdata/mine.yaml": {`preset = "flow_grpo_fast"`, `precision = "bf16"`, "lora.rank = 16", "lora.alpha = 32",
			`lora.targets = ["attn.to_q", "attn.to_k"]`, "width = 512", "height = 256", `estimator = "group"`, `combine = "gdpo"`,
			`solver = "cps"`, "window.size = 1", "window.from = 1", "window.drop = 6", "weight = 0.5", `name = "clip"`, "every = 20",
			"eval.wholly_unknown = 3: no counterpart"},
	} {
		text := translated(t, from)
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", from, want, text)
			}
		}
	}
}

// settings has a function with settings that are enough, and more statements.
func settings(statements string) string {
	return `import ml_collections
def a():
    config = ml_collections.ConfigDict()
    config.seed = 7
    config.pretrained = ml_collections.ConfigDict()
    config.sample = sample = ml_collections.ConfigDict()
    config.train = ml_collections.ConfigDict()
    config.train.learning_rate = 1e-4
    config.sample.num_image_per_prompt = 8
    config.sample.train_batch_size = 8
    config.pretrained.model = "black-forest-labs/FLUX.1-dev"
    config.dataset = "dataset/ocr"
    config.reward_fn = {"ocr": 1}
` + statements + "    return config\n"
}

// yamlOf has settings of Flow-Factory that are enough, and more.
func yamlOf(trainer, more string) string {
	return "data:\n  dataset_dir: dataset/pickscore\nmodel:\n  model_type: sd3-5\n  model_name_or_path: stabilityai/sd3\n" +
		"rewards:\n  - reward_model: PickScore\n" + more + "train:\n  trainer_type: " + trainer + "\n  num_inference_steps: 10\n"
}

// TestTranslateForms: lines that are written, and lines that are not, of one form of settings each.
func TestTranslateForms(t *testing.T) {
	steps := func(list string) string { return yamlOf("grpo", "scheduler:\n"+list) }
	for name, of := range map[string]struct {
		text, has, hasNot string // has: parts between bars
	}{
		// lists and models
		"jsonl.yaml": {strings.Replace(yamlOf("grpo", ""), "dataset/pickscore", "dataset/t2is", 1),
			`prompts = "Flow-Factory/dataset/t2is/train.jsonl"|prompts = "Flow-Factory/dataset/t2is/test.jsonl"`, ".txt"},
		"geneval.yaml": {strings.Replace(yamlOf("grpo", ""), "dataset/pickscore", "dataset/geneval", 1),
			`prompts = "flow_grpo/dataset/geneval/train_metadata.jsonl"`, ".txt"},
		"unlisted.yaml": {strings.Replace(yamlOf("grpo", ""), "dataset/pickscore", "dataset/mine", 1),
			`prompts = "Flow-Factory/dataset/mine/train.txt"|data.dataset_dir = "dataset/mine": train.txt and test.txt are written`, ""},
		"rooted.yaml": {strings.NewReplacer("dataset/pickscore", "/data/pickscore", "stabilityai/sd3", "/models/sd3").Replace(yamlOf("grpo", "")),
			`prompts = "/data/pickscore/train.txt"|path = "/models/sd3"`, "flow_grpo/"},
		"rooted.py": {settings("    config.dataset = os.path.join(os.getcwd(), \"/data/ocr\")\n    config.pretrained.model = \"C:\\\\models\\\\sd3\"\n"),
			`prompts = "/data/ocr/train.txt"|path = "C:\\models\\sd3"`, "flow_grpo/data"},
		"nested.py": {settings("    config.pretrained.model = \"../a/b\"\n    config.dataset = os.getcwd() + \"/dataset/pickscore\"\n"),
			`path = "../a/b"|prompts = "flow_grpo/dataset/pickscore/train.txt"`, ""},
		// steps of noise
		"null.yaml": {steps("  num_sde_steps: 1\n  sde_steps: null\n"), "window.from = 0|window.drop = 1|window.size = 1", ""},
		"all.yaml":  {steps("  num_sde_steps: null\n  sde_steps: [0, 1, 2]\n"), "window.from = 0|window.drop = 7|window.size = 3", ""},
		"gaps.yaml": {steps("  num_sde_steps: 1\n  sde_steps: [1, 3]\n"), "scheduler.sde_steps = [1, 3]: steps not in a row", "window."},
		"some.yaml": {steps("  num_sde_steps: 3\n  sde_steps: [0, 1, 2, 3, 4, 5, 6]\n"),
			`window.kind = "subset"|window.fraction = 0.4286|window.drop = 3`, ""},
		"row.yaml": {steps("  num_sde_steps: 2\n  sde_steps: [2, 1, 3]\n"), "window.size = 2|window.from = 1|one by one", ""},
		// statements
		"quoted.py": {settings("    '''\n    config.seed = 8\n    '''\n    config.run_name = \"\"\"two\n    config.seed = 9\n    \"\"\"\n"),
			"seed = 7|two     config.seed = 9", "seed = 8"},
		"times.py":     {settings("    config.seed *= 2\n    config.train.learning_rate /= 2\n"), "seed = 14|lr = 5e-05", "?"},
		"power.py":     {settings("    config.seed **= 2\n"), "seed = ?: its value is not read", "\nseed"},
		"if.py":        {settings("    if sample:\n        config.seed = 8\n"), "seed = ?: its value is not read|not read: if.py:14", "\nseed"},
		"line.py":      {settings("    if sample: config.seed = 8\n"), "seed = ?: its value is not read", "\nseed"},
		"semicolon.py": {settings("    config.seed = 8; config.train.learning_rate = 2e-4\n"), "seed = 8|lr = 0.0002", ""},
		"pair.py":      {settings("    config.seed, config.num_epochs = 1, 2\n"), "seed = ?|num_epochs = ?", "\nseed"},
		"key.py":       {settings("    config[\"seed\"] = 8\n    config[\"train\"][\"learning_rate\"] = 2e-4\n"), "seed = 8|lr = 0.0002", ""},
		"keys.py":      {settings("    for k in keys:\n        config.train[k] = 8\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"update.py":    {settings("    config.train.update(more)\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"setattr.py":   {settings("    setattr(config.train, name, 8)\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"with.py":      {settings("    with config.unlocked():\n        config.train.learning_rate = 8\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"passes.py":    {settings("    passes = 9\n    config.seed = passes\n"), "seed = 9", ""},
		"infinite.py":  {settings("    config.seed = 1e308 * 10\n"), "seed = ?", "Inf"},
		"top.py": {"lr = 1e-4\nif True:\n    lr = 2e-4\nclass config:\n    lr = 3e-4\n" +
			settings("    config.train.learning_rate = lr\n"), "train.learning_rate = ?|not read: top.py:2", "\nlr"},
		"unknown.py": {settings("    config.sample.num_image_per_prompt = open(\"n\")\n"),
			"sample.num_image_per_prompt = ?|rollout.group and optim.updates: not known", "\ngroup"},
		"module.py": {"config = ConfigDict()\nconfig.train = ConfigDict()\n" +
			strings.Replace(settings("    config.train.learning_rate = 5e-4\n"), "    config = ml_collections.ConfigDict()\n", "", 1),
			"lr = 0.0005|seed = 7", "?"},
		"ones.py": {settings("    config.use_lora = 1\n    config.train.ema = 1\n    sample.global_std = 1\n    sample.same_latent = 1.0\n"),
			`train = "lora"|estimator = "global"|shared_noise = true`, "weights = \"current\""},
		"two.py": {settings("    config.use_lora = 2\n    config.train.ema = \"x\"\n"),
			"use_lora = 2: here model.train: neither true nor false|train.ema = \"x\": here optim.ema: neither", "\ntrain ="},
		"whole.py": {settings("    config.num_epochs = 1e5\n    sample.num_steps = 20 / 2\n    config.train.adv_clip_max = 10 / 2\n"),
			"iterations = 100000\n|steps = 10\n|clip = 5\n", ".0\n"},
		"compare.py": {settings("    config.seed = 1 if \"b\" < \"a\" else 2\n    config.num_epochs = 1 if True == 1 else 2\n"),
			"seed = ?|num_epochs = ?", "\nseed"},
		"equal.py":  {settings("    config.seed = 1 if \"b\" == \"a\" or_not else 2\n    config.seed = 3 if \"b\" != \"a\" else 4\n"), "seed = 3", ""},
		"texts.py":  {settings("    config.run_name = f\"{1.0}-{True}-{None}-{1e-5}-{1e6}\"\n"), `name = "1.0-True-None-1e-05-1000000.0"`, ""},
		"call.py":   {settings("    tweak(config.train)\n"), "train.learning_rate = ?|seed = 7|not read: call.py:14", "\nlr"},
		"inside.py": {settings("    x = 1 + tweak([config[\"train\"]])\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"block.py":  {settings("    if tweak(config.train):\n        pass\n"), "train.learning_rate = ?|seed = 7", "\nlr"},
		"idle.py":   {settings("    x = len(config.train)\n    config.lock()\n    tweak(\"config.train\")\n"), "lr = 0.0001", ""},
		"cards.py":  {"gpu_number = 4\n" + settings(""), "prompts_per_iteration = 4", "one card"},
		// values
		"missing.yaml": {yamlOf("nft", ""), `combine = "gdpo"|estimator = "global"`, ""},
		"ocr.yaml":     {strings.Replace(yamlOf("nft", ""), "PickScore", "OCR", 1), `ocr.formula = "flow_factory"`, ""},
		"awm.yaml":     {yamlOf("awm", ""), "time_range = [0, 0]|loss.time_range: all steps", ""},
		"dpo.yaml":     {yamlOf("dpo", ""), `combine = "gdpo"`, "estimator"},
		"yes.yaml":     {strings.Replace(yamlOf("grpo", ""), "  num_inf", "  global_std: yes\n  num_inf", 1), `estimator = "global"`, ""},
		"off.yaml":     {strings.Replace(yamlOf("grpo", ""), "  num_inf", "  global_std: Off\n  num_inf", 1), `estimator = "group"`, ""},
	} {
		text := translated(t, filepath.Join(written(t, map[string]string{name: of.text}), name))
		for _, want := range strings.Split(of.has, "|") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, text)
			}
		}
		if of.hasNot != "" && strings.Contains(text, of.hasNot) {
			t.Errorf("%s: %q is in\n%s", name, of.hasNot, text)
		}
	}
}

// TestTranslateCalls: a function without a result is read where it is called.
func TestTranslateCalls(t *testing.T) {
	text := "config = ConfigDict()\ndef more():\n    config.train.learning_rate = 5e-4\n" +
		strings.Replace(settings("    more()\n"), "    config = ml_collections.ConfigDict()\n", "", 1)
	if got := translated(t, filepath.Join(written(t, map[string]string{"f.py": text}), "f.py")+":a"); !strings.Contains(got, "lr = 0.0005") {
		t.Error(got)
	}
}

// TestTranslateRefuses: mistakes have a place of the file, and their remedy.
func TestTranslateRefuses(t *testing.T) {
	refused := map[string]struct{ text, want string }{
		"loop.py":   {"def a():\n    return a()\n", "loop.py:1:1: functions call each other too deeply"},
		"open.py":   {"def a():\n    return (((\n", "open.py:1:1: a returns no settings"},
		"early.py":  {settings("    if x:\n        return 1\n"), "early.py:15:9: a return in a block"},
		"none.py":   {settings("    config.reward_fn = {\"mine\": 1}\n"), "none.py:14:5: none of its rewards"},
		"group.py":  {settings("    config.sample.num_image_per_prompt = 0\n"), "group.py:14:5: sample.num_image_per_prompt = 0: a whole number"},
		"part.py":   {settings("    sample.num_image_per_prompt = 1.5\n"), "part.py:14:5: sample.num_image_per_prompt = 1.5: a whole number"},
		"steps.py":  {settings("    config.sample.num_batches_per_epoch = \"x\"\n"), "steps.py:14:5: sample.num_batches_per_epoch = \"x\": no number"},
		"much.py":   {settings("    sample.num_batches_per_epoch = 1000000\n    sample.sample_time_per_prompt = 1000000\n"), "much.py:14:5: "},
		"weight.py": {settings("    config.reward_fn = {\"ocr\": \"1\"}\n"), "weight.py:14:5: reward_fn.ocr = \"1\": a weight is a number"},
		"self.py":   {settings("    config.a = config\n    config.b = config\n"), "self.py:14:5: a is a table inside of itself"},
		"many.py": {settings("    x = {\"a\": 1}\n" + strings.Repeat("    x = {\"a\": x, \"b\": x}\n", 18) + "    config.x = x\n"),
			"many.py:15:5: more than 10000 settings"},
		"dict.py":     {settings("    config.sample = {\"train_batch_size\": 0}\n"), "dict.py:14:5: sample.train_batch_size = 0: a whole"},
		"half.py":     {settings("    sample.num_steps = 10.5\n"), "half.py:2:1: translated: steps = 10.5: "},
		"betas.yaml":  {strings.Replace(yamlOf("grpo", ""), "  num_inf", "  adam_betas: [0.9, null]\n  num_inf", 1), "betas.yaml:10:3: train.adam_betas = [0.9, none]: a list of numbers"},
		"side.yaml":   {strings.Replace(yamlOf("grpo", ""), "  num_inf", "  resolution: [null, 512]\n  num_inf", 1), "side.yaml:10:3: train.resolution = [none, 512]: [height, width]"},
		"layers.yaml": {strings.Replace(yamlOf("grpo", ""), "model:\n", "model:\n  target_modules: [a, {b: 1}]\n", 1), "layers.yaml:4:3: model.target_modules = [\"a\", { b = 1 }]: a list of layers"},
		"null.py":     {settings("    config.dataset = None\n"), "null.py:14:5: dataset = none: no folder"},
		"null.yaml":   {strings.Replace(yamlOf("grpo", ""), "dataset/pickscore", "null", 1), "null.yaml:2:3: data.dataset_dir = none: no folder"},
		"one.yaml":    {strings.Replace(yamlOf("grpo", ""), "steps: 10", "steps: 1", 1), "one.yaml:10:3: train.num_inference_steps = 1: 2 steps"},
		"bagel.py":    {settings("    config.pretrained.model = \"ByteDance-Seed/BAGEL-7B-MoT\"\n"), "bagel.py:14:5: pretrained.model = \"ByteDance-Seed/BAGEL-7B-MoT\": no model that is read here"},
		"bad.yaml":    {"train:\n  a: &x 1\n  b: *x\n", "bad.yaml:3:6: an anchor's copy"},
		"crd.yaml":    {"train:\n  trainer_type: crd\n", "crd.yaml:2:3: trainer_type \"crd\" has no preset"},
		"none.yaml":   {"train:\n  trainer_type: nft\n", "none.yaml:1:1: none of its rewards"},
		"bool.yaml":   {"train:\n  global_std: !!bool maybe\n", "bool.yaml:2:15: \"maybe\" is no boolean"},
		"form.yaml":   {"train:\n  a: [\n", "form.yaml:"},
		"value.yaml":  {yamlOf("grpo", "scheduler:\n  sde_steps: [1, 10]\n"), "value.yaml:9:3: scheduler.sde_steps = [1, 10]: steps from 0 to 9"},
		"text.yaml":   {strings.Replace(yamlOf("nft", ""), "PickScore\n", "PickScore\n    weight: much\n", 1), "text.yaml:7:5: rewards.PickScore = \"much\": a weight is a number"},
		"ltx.yaml":    {strings.Replace(yamlOf("grpo", ""), "sd3-5", "ltx2_t2av", 1), "ltx.yaml:4:3: model.model_type = \"ltx2_t2av\": no model"},
	}
	for name, of := range refused {
		dir := written(t, map[string]string{name: of.text})
		_, err := Translate(filepath.Join(dir, name))
		if err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for from, want := range map[string]string{
		"testdata/mine.py":        "testdata/mine.py:NAME, where NAME is one of words, fast",
		"testdata/mine.py:slow":   "there are words, fast",
		"testdata/none.py":        "testdata/none.py:",
		`C:\none.py`:              `C:\none.py:`,
		"testdata/mine.txt":       "a .py file",
		"testdata/mine.yaml:NAME": "has no functions",
	} {
		if _, err := Translate(from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// TestKinds: a translated reward's keys are that reward's.
func TestKinds(t *testing.T) {
	for name, k := range kinds {
		lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(k.lines, " = ", "=")), "\n")
		reward, _ := strings.CutPrefix(lines[0], "name=")
		if _, err := experiment.ParseReward(strings.Trim(reward, `"`), lines[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConverters: each converter is that of a row, and each row's is there.
func TestConverters(t *testing.T) {
	used := map[string]bool{}
	for _, k := range experiment.ElsewhereKeys() {
		if used[k.By] = true; k.By != "" && converters[k.By] == nil {
			t.Errorf("%s of %s: there is no converter %s", k.Name, k.Program, k.By)
		}
		if k.By != "" && !slices.Contains([]string{"flow_grpo", "Flow-Factory"}, k.Program) {
			t.Errorf("%s of %s, which is not translated, has converter %s", k.Name, k.Program, k.By)
		}
	}
	for name := range converters {
		if !used[name] {
			t.Errorf("converter %s is no row's", name)
		}
	}
}

// TestTranslateHostile: files that would inject settings, or never end, are translated to comments, or refused at a
// place.
func TestTranslateHostile(t *testing.T) {
	const head = "model:\n  model_name_or_path: a\ndata:\n  dataset_dir: a\nrewards:\n  - reward_model: PickScore\n"
	for name, text := range map[string]string{
		"inject.yaml": head + "train:\n  trainer_type: nft\n\"x\\n[[reward]]\\nname = \\\"exec\\\"\": 1\n",
		"lists.yaml": head + "train:\n  trainer_type: grpo\n  advantage_aggregation: [sum]\n  kl_type: [x]\n  kl_beta: 1\n" +
			"scheduler:\n  dynamics_type: [CPS]\n",
		"self.py":   "x = imp.load_source(\"x\", __file__)\n\ndef a():\n    config = ConfigDict()\n    config.self = config\n    return config\n",
		"spoilt.py": settings("    config.self = config\n    config.update(x)\n"),
		"loops.py":  settings("    config.a = config\n    config.b = config\n    config.c = config\n    config.d = config\n    config.update(x)\n"),
		"same.py":   "x = [1] == [1]\n\n" + settings(""),
		"long.py": "a = \"xxxxxxxxxx\"\n" + strings.Repeat("a = a + a\n", 40) + "b = [1]\n" + strings.Repeat("b = [b, b]\n", 40) +
			settings("    config.b = b\n"),
		"texts.py":  settings("    x = \"xxxxxxxxxxxxxxxxxxxx\"\n" + strings.Repeat("    x = f\"{x}{x}\"\n", 22) + "    config.run_name = x\n"),
		"joined.py": settings("    x = \"xxxxxxxxxxxxxxxxxxxx\"\n" + strings.Repeat("    x = os.path.join(x, x)\n", 22) + "    config.run_name = x\n"),
		"wide.py":   settings("    x = 1\n" + strings.Repeat("    x = ["+strings.Repeat("x, ", 100)+"]\n", 5) + "    config.x = x\n"),
		"deep.py":   settings("    x = " + strings.Repeat("(", 60000) + "\n"),
		"open.py":   settings("    x = '''\n"),
	} {
		dir := written(t, map[string]string{name: text})
		got, err := Translate(filepath.Join(dir, name))
		if err != nil {
			var all config.Mistakes
			if !errors.As(err, &all) {
				t.Errorf("%s: %v", name, err)
			}
			for _, m := range all {
				if m.File != filepath.Join(dir, name) || m.Line == 0 || m.Column == 0 {
					t.Errorf("%s: %+v", name, m)
				}
			}
			continue
		}
		if _, err := experiment.Parse("translated.toml", got, nil); err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if n := strings.Count(string(got), "\n[[reward]]\n"); n != 1 || strings.Contains(string(got), "\nname = \"exec\"") {
			t.Errorf("%s: %d rewards\n%s", name, n, got)
		}
	}
}
