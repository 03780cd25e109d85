//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipes: where a file is expected, a pipe or an endless device is refused at once, by its path.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(name, to string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe("model/model_index.json")
	pipe("adapter/adapter_config.json")
	adapter := filepath.Join(dir, "adapter")
	for _, args := range [][]string{
		{"plan", pipe("a.toml")},
		{"plan", link("zero.toml", "/dev/zero")},
		{"ablate", pipe("b.toml"), "--vary", "optim.lr=1e-3,2e-3"},
		{"pretrain", pipe("c.toml")},
		{"score", "--reward", "scene", pipe("d.png")},
		{"score", "--reward", "motion", pipe("e.gif")},
		{"score", "--reward", "scene", "--items", pipe("f.jsonl")},
		{"eval", "--reward", "scene", "--pairs", pipe("g.jsonl")},
		{"sample", "--model", filepath.Join(dir, "model"), "--prompt", "x", "--out", filepath.Join(dir, "out.png")},
		{"sample", "--model", "embed:tiny-sd3", "--lora", adapter, "--prompt", "x", "--out", filepath.Join(dir, "out.png")},
		{"inspect", filepath.Join(dir, "model")},
		{"train", "--example", "quickstart", "--set", "rollout.prompts=" + pipe("h.txt"), "--out", filepath.Join(dir, "run")},
		{"train", "--example", "quickstart", "--set", "rollout.prompts=" + link("zero.txt", "/dev/zero"), "--out", filepath.Join(dir, "run")},
	} {
		var out, errs bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- execute(t.Context(), args, strings.NewReader(""), &out, &errs) }()
		select {
		case code := <-ended:
			if said := out.String() + errs.String(); code == 0 || !strings.Contains(said, "regular file") {
				t.Errorf("%v: exit code %d, %s", args, code, said)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v waits for ever", args)
		}
	}
}
