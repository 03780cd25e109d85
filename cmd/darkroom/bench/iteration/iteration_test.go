package iteration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

func small() Work {
	return Work{Heads: 1, Layers: 2, Latent: 4, Text: 8, Group: 3, Steps: 4, Window: 2, Micro: 2, Repeat: 2, Vocabulary: 300, Rows: 3, Prompt: 5, New: 4}
}

func run(t *testing.T, p Part, w Work) (map[string]any, error) {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 2})
	defer be.Close()
	process := Process{Peak: func() int { return 7 }, Reset: func() {}, CPU: func() float64 { return 0 }, Dry: func() pipeline.Dry { return cpu.NewDry(cpu.Options{Path: path}) }}
	result, err := p.Run(context.Background(), w, be, process)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree, nil
}

// A small model goes through whole iterations, in which every first ratio is 1, and the
// result has the keys of the program that it is compared with.
func TestIterations(t *testing.T) {
	for _, p := range []Part{"grpo:fp32", "grpo:bf16"} {
		r, err := run(t, p, small())
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"config", "parameters", "lora_parameters", "sampling_s_per_image_step", "training_s_per_image_step", "training_checkpointing_s_per_image_step"} {
			if r[key] == nil {
				t.Errorf("%s: no %s", p, key)
			}
		}
		flow := r["flowgrpo"].(map[string]any)
		if flow["sampled_image_steps"] != 12.0 || flow["trained_image_steps"] != 9.0 || flow["peak_rss_mb"] != 7.0 {
			t.Errorf("%s: %v", p, flow)
		}
		if mix := r["mixgrpo"].(map[string]any); mix["trained_image_steps"] != 6.0 {
			t.Errorf("%s: %v", p, mix)
		}
		// All eight projections of two layers, the last without the text's out.
		if want := float64(2 * rank * 64 * (8 + 7)); r["lora_parameters"] != want {
			t.Errorf("%s: %v parameters of adapters, want %v", p, r["lora_parameters"], want)
		}
	}
}

// Answers are written, and their numbers have the names of the program they are compared with.
func TestAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has 80 million parameters")
	}
	r, err := run(t, "vlm:bf16", small())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"config", "parameters", "prefill", "decode", "vision_224", "peak_rss_mb"} {
		if r[key] == nil {
			t.Errorf("no %s", key)
		}
	}
	if d := r["decode"].(map[string]any); !(d["tokens_per_s"].(float64) > 0 && d["step_ms"].(float64) > 0) {
		t.Errorf("decoding: %v", d)
	}
}

func TestWholeIterationsCanBeLeftOut(t *testing.T) {
	w := small()
	w.Group = 0
	r, err := run(t, "grpo:bf16", w)
	if err != nil || r["mixgrpo"] != nil || r["training"] == nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestWorkIsChecked(t *testing.T) {
	for says, change := range map[string]func(*Work){
		"--heads 0: 1 to 256":     func(w *Work) { w.Heads = 0 },
		"--latent 5: it must":     func(w *Work) { w.Latent = 5 },
		"--window 4: 1 to 3":      func(w *Work) { w.Window = 4 },
		"--micro -1: 1 to 1024":   func(w *Work) { w.Micro = -1 },
		"--layers 1000: 1 to 256": func(w *Work) { w.Layers = 1000 },
	} {
		w := small()
		change(&w)
		if _, err := run(t, "grpo:fp32", w); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := run(t, "grpo:fp8", small()); err == nil {
		t.Error("a part that there is not")
	}
}

// queueing is a backend whose work is done when it is waited for.
type queueing struct {
	kernels.Backend
	said *strings.Builder
}

func (q queueing) Sync() { q.said.WriteString("wait ") }

// TestTimedWaits: work that a device has only queued is not timed as done, nor is earlier work.
func TestTimedWaits(t *testing.T) {
	var said strings.Builder
	b := &bench{Work: Work{Repeat: 1}, ctx: context.Background(), process: Process{CPU: func() float64 { said.WriteString("clock "); return 0 }}, pool: tensor.NewPool(queueing{said: &said})}
	if _, err := b.timed(func() error { said.WriteString("work "); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := "wait clock work wait wait clock work wait clock "; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
