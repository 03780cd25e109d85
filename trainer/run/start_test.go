package run

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Functions by which tests run experiments, and compare their folders.

func parse(t *testing.T, sets ...string) *experiment.Experiment {
	t.Helper()
	return parseText(t, small, append([]string{tiny(t)}, sets...)...)
}

func parseText(t *testing.T, text string, sets ...string) *experiment.Experiment {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.txt")
	if err := os.WriteFile(path, []byte("a red circle on white\ntwo blue squares on black\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sets = append([]string{"evaluate.prompts=" + path}, sets...)
	e, err := experiment.Parse("small.toml", []byte(text), sets)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fastest is a backend with the machine's kernels; one without a path computes in plain Go, ten times as long.
func fastest(t *testing.T, threads int) *cpu.Backend {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	return cpu.NewWith(cpu.Options{Path: path, Threads: threads})
}

// train runs until the context ends, which stop may bring about after an iteration.
func train(t *testing.T, e *experiment.Experiment, dir string, resume bool, threads, stop int) (*ledger.Result, error) {
	t.Helper()
	return trainWith(t, e, dir, resume, threads, func(l *ledger.Line) bool { return l.Iteration == stop })
}

// trainWith is train that ends where a line says so.
func trainWith(t *testing.T, e *experiment.Experiment, dir string, resume bool, threads int, stop func(l *ledger.Line) bool) (*ledger.Result, error) {
	t.Helper()
	be := fastest(t, threads)
	defer be.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return Run(ctx, e, Options{Dir: dir, Resume: resume, Backend: be, Logf: t.Logf, Report: func(l *ledger.Line, _ *ledger.TimingLine) {
		if stop(l) {
			cancel()
		}
	}})
}

// trainAs runs with options; it has a backend of two threads.
func trainAs(t *testing.T, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	t.Helper()
	return trainUntil(context.Background(), t, e, o)
}

// trainUntil is trainAs until ctx ends.
func trainUntil(ctx context.Context, t *testing.T, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	t.Helper()
	be := fastest(t, 2)
	defer be.Close()
	if o.Backend = be; o.Logf == nil {
		o.Logf = t.Logf
	}
	return Run(ctx, e, o)
}

// saying keeps a run's log.
func saying(to *[]string) func(format string, args ...any) {
	return func(format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }
}

// contents are the bytes of all files that depend on nothing but the experiment.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && name != "timing.jsonl" && name != "lock" && name != "config.toml" && name != "manifest.json" {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, what string, a, b map[string][]byte) {
	t.Helper()
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s: %d files and %d", what, len(a), len(b))
	}
}

// tiny names brief's denoiser: a tenth of the embedded model's work, for tests that look at the run and not at the
// pictures. The curves of configs_test.go are the whole model's.
func tiny(t *testing.T) string {
	t.Helper()
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	return "model.path=" + dir
}

// whole is the embedded model itself, whose pictures the embedded towers judge.
const whole = "model.path=embed:tiny-sd3"

// madeTiny makes it once for all tests; TestMain deletes it.
var madeTiny = sync.OnceValues(func() (string, error) {
	dir := ownDir("tiny")
	return dir, brief.Denoiser(dir)
})
