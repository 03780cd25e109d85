//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// TestTrainOnHopper: adapters that have moved give an update's first ratio of 1 where their products go into the sums
// of others, which the run's folder says.
func TestTrainOnHopper(t *testing.T) {
	if testing.Short() {
		t.Skip("two iterations on a device that is emulated take six seconds")
	}
	double.New(t).Set(13000, 1, 90, 2<<30)
	dir := t.TempDir()
	config, out := filepath.Join(dir, "experiment.toml"), filepath.Join(dir, "run")
	text := `preset = "mixgrpo"
run = { name = "adapters", iterations = 2 }
model = { path = "embed:tiny-sd3", lora = { rank = 32, alpha = 48, targets = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"] } }
sampler = { steps = 2, width = 16, height = 16, guidance = 1, guidance_kind = "cfg", window = { kind = "sliding", size = 1, every = 8, stride = 1, drop = 0, tail = "shift" } }
rollout = { prompts = "embed:scenes", prompts_per_iteration = 1, group = 2 }
loss = { noise_floor = "off" }
reward = [{ name = "jpeg" }]
evaluate = { every = 0 }
optim = { updates = 1, lr = 1e-2 }
`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), []string{"train", config, "--device", "cuda:0", "--out", out}, nil, &stdout, &stderr); code != exits.Done {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	for name, want := range map[string]struct {
		text  string
		times int
	}{"ledger.jsonl": {`"ratio_mean":1,"ratio_most":1,`, 2}, "products.json": {`"adapters": "wgmma"`, 1}} {
		b, err := os.ReadFile(filepath.Join(out, name))
		if n := strings.Count(string(b), want.text); err != nil || n != want.times {
			t.Errorf("%s has %s %d times, want %d: %v\n%s", name, want.text, n, want.times, err, b)
		}
	}
}
