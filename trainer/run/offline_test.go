package run

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestOffline: fine-tuning on a folder of pictures learns from its pictures; a file of pairs needs groups of two; a
// picture that went missing ends the run with its name.
func TestOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]color.RGBA{"red": {220, 40, 40, 255}, "blue": {50, 80, 220, 255}} {
		if err := vision.WriteFile(filepath.Join(dir, name+".png"), vision.NewFilled(96, 80, c)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte("a "+name+" circle on white"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "pairs.jsonl"), []byte(`{"prompt": "a red circle on white", "a": "red.png", "b": "blue.png", "better": "a"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	sets := func(more ...string) []string {
		return append([]string{"rollout.offline=true", "rollout.prompts=" + dir, "rollout.group=1", "loss.objective=sft", "advantage.estimator=best", "loss.times=8",
			"run.iterations=12", `model.lora={rank=8, alpha=16, targets=["attn.to_q", "attn.to_v", "attn.add_k_proj", "attn.add_v_proj", "attn.to_out.0"]}`, "optim.updates=1", "optim.lr=5e-3", "evaluate.every=0", "checkpoint.every=100"}, more...)
	}
	run := filepath.Join(t.TempDir(), "run")
	if _, err := train(t, parse(t, sets()...), run, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	lines := readLedger(t, run)
	mean := func(some []ledger.Line) (sum float64) {
		for _, l := range some {
			sum += l.Updates[0].Loss / float64(len(some))
		}
		return sum
	}
	if first, last := mean(lines[:4]), mean(lines[8:]); !(last < 0.9*first) || lines[0].Total.Mean != 1 {
		t.Errorf("the loss went from %v to %v, and the total is %+v", first, last, lines[0].Total)
	}
	again := filepath.Join(t.TempDir(), "again") // in two parts, the same bytes
	if _, err := train(t, parse(t, sets()...), again, false, 1, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, parse(t, sets()...), again, true, 2, -1); err != nil {
		t.Fatal(err)
	}
	a, b := contents(t, run), contents(t, again)
	for _, name := range []string{"ledger.jsonl", "samples.jsonl", "checkpoints/000012/adapter_model.safetensors"} {
		if string(a[name]) != string(b[name]) || len(a[name]) == 0 {
			t.Errorf("resumed: %s differs", name)
		}
	}
	for says, more := range map[string][]string{
		"has 2 pictures, and rollout.group is 1": {"rollout.prompts=" + filepath.Join(dir, "pairs.jsonl")},
		"nowhere":                                {"rollout.prompts=" + filepath.Join(dir, "nowhere")},
	} {
		if _, err := train(t, parse(t, sets(more...)...), filepath.Join(t.TempDir(), "run"), false, 2, -1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; %q was expected", err, says)
		}
	}
}
