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
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// TestDeviceFails: a device that is lost, or out of memory, while two train together over NCCL ends the command with
// its name and a way on, wherever it happens; saved iterations go on with --resume. The double computes nothing here,
// but copies, waits and gatherings are made.
func TestDeviceFails(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for name, text := range map[string]string{"tiny.toml": tinyGrid, "prompts.txt": "a red circle on white\n", "heldout.txt": "two blue squares on black\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	train := func(fault func(c *double.Control), more ...string) (int, string) {
		c := double.New(t)
		c.NCCL(22105)
		double.Products(t)
		c.Set(13000, 2, 120, 1<<30)
		c.Idle()
		fault(c)
		var stdout, stderr bytes.Buffer
		args := append([]string{"train", "tiny.toml", "--device", "cuda:0,cuda:1", "--out", out}, more...)
		if saved, _ := filepath.Glob(filepath.Join(out, "checkpoints", "*")); len(saved) > 0 {
			args = append(args, "--resume")
		}
		code := execute(context.Background(), args, nil, &stdout, &stderr)
		return code, stderr.String()
	}
	for _, x := range []struct {
		name       string
		fault      func(c *double.Control)
		says, hint string
	}{
		{"opening", func(c *double.Control) { c.Lose(1, "cuLaunchKernel", 3, 719) }, "cuLaunchKernel", ""},
		{"the first roll", func(c *double.Control) { c.Lose(1, "cuLaunchKernel", 700, 700) }, "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)", "nothing was saved yet"},
		{"waiting for what is gathered", func(c *double.Control) { c.Lose(1, "cuStreamQuery", 3, 719) }, "Wait: cuStreamQuery", "iteration 0 is saved"},
	} {
		code, stderr := train(x.fault)
		if code != exits.Failed || !strings.Contains(stderr, "rank 1 (cuda:1): ") || !strings.Contains(stderr, x.says) || !strings.Contains(stderr, x.hint) {
			t.Errorf("%s: exit code %d\n%s", x.name, code, stderr)
		}
	}
	products := filepath.Join(out, run.ProductsFile)
	before, err := os.ReadFile(products)
	if err != nil || !bytes.Contains(before, []byte(`"by": "cublaslt"`)) || !bytes.Contains(before, []byte(`"algorithm"`)) {
		t.Errorf("what two devices chose together: %s, %v", before, err)
	}
	if code, stderr := train(func(*double.Control) {}); code != exits.Done || !strings.Contains(stderr, "going on after iteration 0") {
		t.Errorf("afterwards: exit code %d\n%s", code, stderr)
	}
	if after, err := os.ReadFile(products); err != nil || !bytes.HasPrefix(after, before[:bytes.Index(before, []byte(`"shapes"`))]) {
		t.Errorf("what was chosen changed: %s, %v", after, err)
	}
	out = filepath.Join(dir, "through the host") // ranks cannot reach each other: seen before the run begins
	code, stderr := train(func(c *double.Control) { c.Absent(1) }, "--set", "run.rank_limit=0.3")
	if code != exits.Done || !strings.Contains(stderr, "through host memory: a trial over 2 ranks") || !strings.Contains(stderr, "what all ranks gather has not come within 300ms") {
		t.Errorf("a gathering that does not come: exit code %d\n%s", code, stderr)
	}
}
