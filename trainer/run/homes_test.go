package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// homed are short experiments with the embedded models, whose frozen matrices may lie anywhere.
func homed() map[string]func(t *testing.T, sets ...string) *experiment.Experiment {
	return map[string]func(t *testing.T, sets ...string) *experiment.Experiment{
		"tiny-sd3": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parse(t, append([]string{whole, "run.iterations=2", "loss.noise_floor=warn", "optim.updates=1"}, sets...)...)
		},
		"tiny-wan": func(t *testing.T, sets ...string) *experiment.Experiment {
			list := pictureFiles(t)("list.jsonl", `{"prompt": "a cat runs", "image": "0.png"}`, `{"prompt": "a dog", "image": "1.png"}`)
			return parseText(t, clips, append([]string{"model.path=embed:tiny-wan", "sampler.guidance=1", "rollout.prompts=" + list, "run.iterations=2", `evaluate.prompts=""`, "sampler.frames=5"}, sets...)...)
		},
		"tiny-kontext": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parseEdits(t, "pipe_flux_kontext", append([]string{"model.path=embed:tiny-kontext", "run.iterations=2", `evaluate.prompts=""`}, sets...)...)
		},
		"tiny-vlm": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parseText(t, talking, append([]string{"model.path=embed:tiny-vlm", "model.train=lora", `model.lora.targets=["q_proj", "down_proj"]`, "run.iterations=2", "rollout.group=2", "evaluate.every=0", fewQuestions(t)}, sets...)...)
		},
	}
}

// TestHomes: wherever frozen matrices lie, a run leaves the same bytes.
func TestHomes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models twice; left out by -short")
	}
	for name, parsed := range homed() {
		t.Run(name, func(t *testing.T) {
			kept := t.TempDir()
			if _, err := train(t, parsed(t, "model.home=device"), kept, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			want := contents(t, kept)
			if c := firstLine(t, kept).Check; c == nil || c.Ratio != 1 {
				t.Errorf("the check is %+v", c)
			}
			for _, home := range []string{"disk"} {
				dir := t.TempDir()
				if _, err := train(t, parsed(t, "model.home="+home), dir, false, 1, -1); err != nil {
					t.Fatal(err)
				}
				same(t, "home = "+home, contents(t, dir), want)
			}
		})
	}
}

// TestHomeLost: a file of weights that is cut while a run reads it ends the run by its name and place. Once the file is
// whole again, the run goes on as if nothing had been.
func TestHomeLost(t *testing.T) {
	from, err := assets.Resolve("embed:tiny-sd3")
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	e := parse(t, "model.path="+model, "run.iterations=3", "model.home=disk")
	kept, dir := t.TempDir(), t.TempDir()
	if _, err := train(t, e, kept, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(model, "transformer", "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	weights, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainWith(t, e, dir, false, 2, func(l *ledger.Line) bool {
		if l.Iteration == 1 {
			if err := os.Truncate(files[0], int64(len(weights)/2)); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	if err == nil || !strings.Contains(err.Error(), filepath.Base(files[0])) || !strings.Contains(err.Error(), "bytes from") || !strings.Contains(err.Error(), "hint:") {
		t.Fatalf("of a file that was cut: %v", err)
	}
	file, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bytes.NewReader(weights).WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, e, dir, true, 2, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "gone on with", contents(t, dir), contents(t, kept))
}
