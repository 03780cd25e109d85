package elsewhere

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestTranslate: settings with the same meaning are written, and the result is read; all others are in comments.
func TestTranslate(t *testing.T) {
	for from, says := range map[string][]string{
		"testdata/mine.py:words": {`preset = "flow_grpo"`, "iterations = 300", `path = "models/stable-diffusion-3.5-medium"`, "prompts_per_iteration = 16", "group = 16", "updates = 2", "split = true",
			"kl.weight = 0.04", "clip_range = 0.0001", `prompts = "flow_grpo/dataset/ocr/train.txt"`, `path = "tesseract"`, "seed = 7",
			"reward deqa has no counterpart", "save_dir = \"logs/7\": here --out", "odd = ?: its value is not read", "not read: mine.py:25: for i in range(3):"},
		"testdata/mine.py:fast": {`preset = "flow_grpo_fast"`, `window.kind = "random"`, "window.size = 3", "window.from = 0", "window.drop = 5", `solver = "cps"`},
		"testdata/mine.yaml": {`preset = "flow_grpo_fast"`, `precision = "bf16"`, "lora.rank = 16", "lora.alpha = 32", `lora.targets = ["attn.to_q", "attn.to_k"]`, "width = 512", "height = 256",
			`estimator = "group"`, `combine = "gdpo"`, `solver = "cps"`, "window.size = 1", "window.from = 1", "window.drop = 6", "weight = 0.5", `name = "clip"`, "every = 20",
			"eval.wholly_unknown = 3: no counterpart"},
	} {
		text, err := Translate(from)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		for _, want := range says {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is not in\n%s", from, want, text)
			}
		}
		if _, err := experiment.Parse("translated.toml", text, nil); err != nil {
			t.Errorf("%s: %v\n%s", from, err, text)
		}
	}
}

// TestTranslateRefuses: mistakes have their remedy.
func TestTranslateRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"loop.py": "def a():\n    return a()\n", "open.py": "def a():\n    return (((\n", "bad.yaml": "train:\n  a: &x 1\n  b: *x\n", "crd.yaml": "train:\n  trainer_type: crd\n", "none.yaml": "train:\n  trainer_type: nft\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, want := range map[string]string{
		"testdata/mine.py":              "one of words, fast",
		"testdata/mine.py:slow":         "there are words, fast",
		"testdata/none.py":              "none.py",
		"testdata/mine.txt":             "a .py file",
		filepath.Join(dir, "loop.py"):   "too deeply",
		filepath.Join(dir, "open.py"):   "no settings",
		filepath.Join(dir, "bad.yaml"):  "bad.yaml:3",
		filepath.Join(dir, "crd.yaml"):  "no preset",
		filepath.Join(dir, "none.yaml"): "none of its rewards",
	} {
		if _, err := Translate(from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// TestTranslateHostile: files that would inject settings, or never end, are translated to comments or refused.
func TestTranslateHostile(t *testing.T) {
	dir := t.TempDir()
	const head = "train:\n  trainer_type: nft\nrewards:\n  - reward_model: PickScore\n"
	for name, text := range map[string]string{
		"inject.yaml": head + "\"x\\n[[reward]]\\nname = \\\"exec\\\"\": 1\n",
		"lists.yaml":  "train:\n  trainer_type: grpo\n  advantage_aggregation: [sum]\n  kl_type: [x]\n  kl_beta: 1\nscheduler:\n  dynamics_type: [CPS]\nrewards:\n  - reward_model: PickScore\n",
		"self.py":     "x = imp.load_source(\"x\", __file__)\n\ndef a():\n    config = ConfigDict()\n    config.self = config\n    return config\n",
		"same.py":     "x = [1] == [1]\n\ndef a():\n    config = ConfigDict()\n    config.reward_fn = {\"ocr\": 1}\n    return config\n",
		"long.py":     "a = \"xxxxxxxxxx\"\n" + strings.Repeat("a = a + a\n", 40) + "b = [1]\n" + strings.Repeat("b = [b, b]\n", 40) + "def f():\n    config = ConfigDict()\n    config.b = b\n    config.reward_fn = {\"ocr\": 1}\n    return config\n",
	} {
		from := filepath.Join(dir, name)
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Translate(from)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		if _, err := experiment.Parse("translated.toml", got, nil); err != nil && !strings.Contains(err.Error(), "missing key") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if n := strings.Count(string(got), "\n[[reward]]\n"); n != 1 || strings.Contains(string(got), "\nname = \"exec\"") {
			t.Errorf("%s: %d rewards\n%s", name, n, got)
		}
	}
}
