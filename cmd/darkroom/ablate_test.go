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

// tinyGrid is an experiment that is soon run.
const tinyGrid = `
[run]
name = "tiny"
iterations = 1
[model]
path = "embed:tiny-sd3"
lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] }
[sampler]
steps = 3
eval_steps = 2
guidance = 1
window = { kind = "random", size = 1, drop = 1 }
[rollout]
prompts = "prompts.txt"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "scene"
[loss]
clip_range = 1e-3
[advantage]
all_dead = "train" # the double, idle, paints every picture alike
[evaluate]
prompts = "heldout.txt"
`

// TestAblateOnDevices: runs go side by side on devices of their own; a device that is lost takes its run with
// it and no other, and the same command goes on. The double computes nothing here: numbers are those of
// TestSideBySide.
func TestAblateOnDevices(t *testing.T) {
	c := double.New(t)
	c.Set(13000, 2, 120, 1<<30)
	c.Idle()
	dir := t.TempDir()
	base, out := filepath.Join(dir, "base.toml"), filepath.Join(dir, "out")
	for path, text := range map[string]string{base: tinyGrid, filepath.Join(dir, "prompts.txt"): "a red circle on white\n", filepath.Join(dir, "heldout.txt"): "two blue squares on black\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ablate := func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := execute(context.Background(), append([]string{"ablate", base, "--vary", "optim.lr=1e-3,1e-2,1e-1", "--seeds", "1", "--out", out}, args...), nil, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	for device, says := range map[string]string{
		"cuda:0,cuda:7": "there is no device 7",
		"tpu":           `"tpu" is no device`,
		"cuda:0,cpu":    "cannot train together",
		"cuda:x":        "cuda:x",
	} {
		if code, _, stderr := ablate("--device", device); code != exits.Wrong || !strings.Contains(stderr, says) {
			t.Errorf("--device %s: exit code %d\n%s", device, code, stderr)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was run on devices that are not there")
	}
	c.Lose(1, "cuLaunchKernel", 600, 719)
	code, _, stderr := ablate("--device", "cuda:0,cuda:1")
	for _, says := range []string{"cuda:1: ", "(719)", "begins again", "cuda:1 is left out", "[1/3 cuda:", "/3 cuda:0] "} {
		if !strings.Contains(stderr, says) {
			t.Errorf("%q is not said", says)
		}
	}
	if code != exits.Failed || strings.Count(stderr, " failed: ") != 1 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	c = double.New(t) // and the device is back
	c.Set(13000, 2, 120, 1<<30)
	c.Idle()
	code, stdout, stderr := ablate("--device", "cuda:1,cuda:0", "--markdown")
	if code != exits.Done || strings.Count(stderr, "finished before") != 2 || strings.Count(stdout, "\n") != 5 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
