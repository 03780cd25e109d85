package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// small is an experiment of moments: few prompts, since a run encodes all of them, and no measurement
// of the noise floor, which makes a network in fp32; tests of that ask for it.
const small = `
[run]
name = "small"
iterations = 4
[model]
path = "embed:tiny-sd3"
lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] }
[sampler]
steps = 4
eval_steps = 2
guidance = 1
window = { kind = "sliding", size = 2, every = 1, drop = 1 }
[rollout]
prompts = "testdata/prompts.txt"
prompts_per_iteration = 2
group = 3
shared_noise = true
[[reward]]
name = "sharpness"
[[reward]]
name = "jpeg"
train = false
[loss]
clip_range = 1e-3
noise_floor = "off"
[optim]
lr = 1e-2
updates = 2
[evaluate]
every = 2
prompts = "PROMPTS"
[checkpoint]
every = 1
keep = 2
`

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

// train runs until the context ends, which stop may bring about after an iteration.
func train(t *testing.T, e *experiment.Experiment, dir string, resume bool, threads, stop int) (*ledger.Result, error) {
	t.Helper()
	return trainWith(t, e, dir, resume, threads, func(l *ledger.Line) bool { return l.Iteration == stop })
}

// trainWith is train that ends where a line says so.
func trainWith(t *testing.T, e *experiment.Experiment, dir string, resume bool, threads int, stop func(l *ledger.Line) bool) (*ledger.Result, error) {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: threads})
	defer be.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return Run(ctx, e, Options{Dir: dir, Resume: resume, Backend: be, Say: t.Logf, Report: func(l *ledger.Line, _ *ledger.TimingLine) {
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
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 2})
	defer be.Close()
	if o.Backend = be; o.Say == nil {
		o.Say = t.Logf
	}
	return Run(ctx, e, o)
}

// saying keeps what a run says.
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

// TestResume: a run that was stopped after any iteration, or killed while it wrote, with other
// numbers of threads, leaves the bytes of one that never was.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for _, objective := range []string{"clip", "nft"} {
		sets, stops := []string{"loss.noise_floor=warn"}, []int{1, 2, 3}
		if objective == "nft" { // what is kept of a run is the same code; its draws and its reference are not
			stops = []int{2}
			sets = []string{"loss.objective=nft", "loss.kl.weight=1e-3", "loss.kl.estimator=velocity", "loss.times=2"}
		}
		dir := t.TempDir()
		whole := filepath.Join(dir, "whole")
		if r, err := train(t, parse(t, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		want := contents(t, whole)
		for _, stop := range stops {
			parts := filepath.Join(dir, fmt.Sprint("parts", stop))
			if r, err := train(t, parse(t, sets...), parts, false, 1, stop); err != nil || r.Status != ledger.Interrupted {
				t.Fatalf("%v, %v", r, err)
			}
			// What a killed process leaves: a torn line, a half-written checkpoint.
			for _, name := range []string{"ledger.jsonl", "samples.jsonl"} {
				f, err := os.OpenFile(filepath.Join(parts, name), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				f.WriteString("{\"iteration\": 99}\n{\"ite")
				f.Close()
			}
			if err := os.MkdirAll(filepath.Join(parts, "checkpoints", "000009.part"), 0o755); err != nil {
				t.Fatal(err)
			}
			if r, err := train(t, parse(t, sets...), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
				t.Fatalf("%v, %v", r, err)
			}
			if err := os.RemoveAll(filepath.Join(parts, "checkpoints", "000009.part")); err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%s, stopped after %d", objective, stop), want, contents(t, parts))
		}
		var lines []ledger.Line
		if err := folder.ReadLines(filepath.Join(whole, "ledger.jsonl"), func(text []byte) error {
			var l ledger.Line
			err := json.Unmarshal(text, &l)
			lines = append(lines, l)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if len(lines) != 4 || lines[1].HeldOut == nil || lines[0].HeldOut != nil || len(lines[0].Updates) != 2 {
			t.Errorf("%s: the ledger is %+v", objective, lines)
		}
		if u := lines[0].Updates; objective == "clip" && (u[0].RatioMean != 1 || u[0].RatioMost != 1 || u[1].RatioMost == 1) {
			t.Errorf("ratios of the first two updates: %+v", u)
		}
	}
}

func TestRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := train(t, parse(t, "run.iterations=1"), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, parse(t), dir, false, 2, -1); !errors.Is(err, folder.ErrUsed) {
		t.Errorf("a folder that holds a run: %v", err)
	}
	if _, err := train(t, parse(t, "optim.lr=1e-3", "rollout.group=4"), dir, true, 2, -1); !errors.Is(err, ErrChanged) ||
		!strings.Contains(err.Error(), "optim.lr was 0.01, and is 0.001") || !strings.Contains(err.Error(), "rollout.group was 3, and is 4") {
		t.Errorf("other settings: %v", err)
	}
	if _, err := train(t, parse(t, "run.iterations=2", "optim.schedule=linear"), filepath.Join(dir, "linear"), false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, parse(t, "run.iterations=3", "optim.schedule=linear"), filepath.Join(dir, "linear"), true, 2, -1); !errors.Is(err, ErrChanged) {
		t.Errorf("a longer run whose rates depend on its length: %v", err)
	}
	for sets, says := range map[string]string{
		"rollout.prompts=nowhere.txt":                                             "nowhere.txt",
		"model.lora.targets=attn.to_quark":                                        "to_quark",
		"stage=[{iterations=2}, {iterations=2, rollout.prompts=\"nowhere.txt\"}]": "nowhere.txt",
		"model.path=nowhere":                                                      "no such folder",
		"stage=[{iterations=2}, {iterations=2, sampler.guidance=3.5, sampler.guidance_kind=\"embedded\"}]": "takes no scale of guidance, so 3.5 would be ignored",
	} {
		dir := filepath.Join(t.TempDir(), "run")
		for range 2 { // the first attempt left nothing that would stand in the way
			if _, err := train(t, parse(t, sets), dir, false, 2, -1); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", sets, err)
			}
		}
	}
}

// TestMonitors: a rule that is broken is told, and stops the run where it says so.
func TestMonitors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	e := parse(t)
	up, down := -1.0, 2.0
	e.Monitors = []experiment.Monitor{{Watch: "heldout.jpeg", FallsBelow: &down, Then: "warn"}, {Watch: "gold.jpeg", RisesAbove: &up, Then: "stop"}}
	r, err := train(t, e, dir, false, 2, -1)
	if err != nil || r.Status != ledger.Stopped || r.Iterations != 1 || !strings.Contains(r.Why, "gold.jpeg rose") {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestRolling: rolls say how far they are, of the training's samples alone.
func TestRolling(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	seen := map[int]int{}
	_, err = Run(context.Background(), parse(t, "run.iterations=2"), Options{Dir: filepath.Join(t.TempDir(), "run"), Backend: be, Say: t.Logf,
		Rolling: func(iteration, done, all int) {
			if done <= seen[iteration] || done > all {
				t.Errorf("iteration %d: %d of %d passes after %d", iteration, done, all, seen[iteration])
			}
			seen[iteration] = done
		}})
	// Two prompts of three samples and four steps, of which they share the first one or two.
	if want := map[int]int{0: 2 * (1 + 3*3), 1: 2 * (2 + 2*3)}; err != nil || !maps.Equal(seen, want) {
		t.Errorf("passes %v, want %v (%v)", seen, want, err)
	}
}

// TestTimesDrawn: where the times of noised samples are drawn changes what is learned.
func TestTimesDrawn(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	seen := map[float64]string{}
	for _, set := range []string{"loss.time_draw=schedule", "loss.time_draw=uniform", "loss.time_draw=logit_normal", "loss.time_shift=3"} {
		sets := []string{"run.iterations=1", "evaluate.every=0", "optim.updates=1", "loss.objective=awm", set}
		if set == "loss.time_shift=3" {
			sets = append(sets, "loss.time_draw=uniform")
		}
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := train(t, parse(t, sets...), dir, false, 2, -1); err != nil {
			t.Fatal(set, err)
		}
		if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
			var l ledger.Line
			if err := json.Unmarshal(text, &l); err != nil {
				return err
			}
			norm := l.Updates[0].Gradient
			if other, again := seen[norm]; again || !(norm > 0) {
				t.Errorf("%s: the gradient's norm is %v, that of %q", set, norm, other)
			}
			seen[norm] = set
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObjectives: every objective that can be trained with moves the weights, and says so.
func TestObjectives(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for name, sets := range map[string][]string{
		"guard": {"loss.objective=guard"}, "dppo": {"loss.objective=dppo"}, "clip, kl": {"loss.kl.weight=0.01"}, "global": {"advantage.estimator=global"},
		"cps": {"sampler.solver=cps"}, "dance": {"sampler.solver=dance"}, "guidance": {"sampler.guidance=3"}, "split": {"optim.split=true", "optim.updates=3"},
		"win-rate": {"advantage.estimator=win-rate"}, "reinforce++": {"advantage.estimator=reinforce++"},
		"history": {"advantage.estimator=history"}, "ema": {"optim.ema=0.9"},
		"nft":     {"loss.objective=nft", "loss.times=2"},
		"crd":     {"loss.objective=crd", "loss.times=2", "loss.kl={weight=1e-3, estimator='velocity'}"},
		"awm":     {"loss.objective=awm", "loss.times=2", "loss.clip_range=0.1"}, // within 1e-3 nothing is left of the second update
		"rewards": {whole, `reward=[{name="clip"}, {name="aesthetic", weight=0.1}, {name="jpeg", weight=3}]`, "advantage.combine=advantages"},
		"dpo":     {"loss.objective=dpo", "advantage.estimator=ends"},
		"rwr":     {"loss.objective=rwr", "advantage.estimator=dr"},
		"sft":     {"loss.objective=sft", "advantage.estimator=best"},
		"dgpo":    {"loss.objective=dgpo"},
		"offline": {"loss.objective=dpo", "advantage.estimator=ends", "rollout.offline=true", "rollout.prompts=embed:scene-pairs", "rollout.group=2"},
		"srpo":    {"loss.objective=reward-gradient", whole, `reward=[{name="clip", relative={positive="red", negative="blue", k=0.2}}, {name="aesthetic", weight=0.1, scale={kind="range", high=2}}]`, "loss.gradient.margin=2", "rollout.group=2", "optim.updates=1"},
		"draft":   {"loss.objective=reward-gradient", whole, `reward=[{name="clip"}]`, `loss.gradient={through="draft", steps=2}`, "sampler.guidance=3", "rollout.group=2", "optim.updates=1"},
		"full":    {"model.train=full", "optim.lr=1e-4"},
		"pattern": {`model.train=["transformer_blocks\\.0\\.attn\\..*"]`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, iterations := filepath.Join(t.TempDir(), "run"), 1 // of two updates, the second with weights that moved
			if name == "history" || name == "ema" {
				iterations = 2 // which look back at others
			}
			e := parse(t, append([]string{fmt.Sprint("run.iterations=", iterations), "evaluate.every=0"}, sets...)...)
			if _, err := train(t, e, dir, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			n := 0
			if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
				var l ledger.Line
				if err := json.Unmarshal(text, &l); err != nil {
					return err
				}
				for _, u := range l.Updates {
					if !(u.Gradient > 0) {
						t.Errorf("iteration %d: the gradient's norm is %v", l.Iteration, u.Gradient)
					}
				}
				checkWatched(t, e, &l)
				n++
				return nil
			}); err != nil || n != iterations {
				t.Errorf("%d lines, %v", n, err)
			}
		})
	}
}

// TestAverageCountsUpdates: optim.ema_every counts updates, of which an iteration may have several.
func TestAverageCountsUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := train(t, parse(t, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "optim.ema=0.9", "optim.ema_every=8"), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "checkpoints", "000001", stateFile))
	if err != nil {
		t.Fatal(err)
	}
	var c state
	if err := json.Unmarshal(text, &c); err != nil || !slices.Equal(c.Paces, []int{2}) {
		t.Errorf("after an iteration of two updates the average has made the steps %v, %v", c.Paces, err)
	}
}

// checkWatched: what can be watched is what the ledger has, and nothing that objectives measure is
// left out.
func checkWatched(t *testing.T, e *experiment.Experiment, l *ledger.Line) {
	t.Helper()
	known := map[string]bool{}
	for _, n := range e.Watched() {
		known[n.Name] = true
		if strings.HasPrefix(n.Name, "heldout.") || slices.Contains([]string{"ratio", "mismatch", "clip_fraction", "noise_floor"}, n.Name) && e.Noised() {
			continue
		}
		if _, ok := l.Value(n.Name); !ok && n.Name != "noise_floor" {
			t.Errorf("%s can be watched, and is not in the ledger", n.Name)
		}
	}
	for name := range l.Updates[0].Metrics {
		if !known[name] {
			t.Errorf("%s is in the ledger, and cannot be watched: add it to objectiveNumbers", name)
		}
	}
}
