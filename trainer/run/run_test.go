package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
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

// TestResume: a run that was stopped after any iteration, or killed while it wrote, with other
// numbers of threads, leaves the bytes of one that never was.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for _, objective := range []string{"clip", "nft"} {
		sets, stops := []string{"loss.noise_floor=warn"}, []int{1, 2, 3}
		if objective == "nft" { // the kept part of a run is the same code; its draws and its reference are not
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
			// A killed process leaves: a torn line, a half-written checkpoint.
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

// TestResumeBetweenCheckpoints: the checkpoint of a stopped run between two regular ones goes when the run has come
// further: it leaves the files of one that never was stopped.
func TestResumeBetweenCheckpoints(t *testing.T) {
	t.Parallel()
	e := func() *experiment.Experiment {
		return parse(t, "run.iterations=5", "evaluate.every=0", "checkpoint={every=4, keep=3}", "optim.updates=1")
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if r, err := train(t, e(), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	for _, stop := range []int{1, 3, -1} {
		if r, err := train(t, e(), parts, stop != 1, 2, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
			t.Fatalf("%v, %v", r, err)
		}
	}
	same(t, "stopped between checkpoints, twice", contents(t, whole), contents(t, parts))
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

// TestMonitors: a broken rule is reported, and stops the run where it says so.
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
	_, err = Run(context.Background(), parse(t, "run.iterations=2"), Options{Dir: filepath.Join(t.TempDir(), "run"), Backend: be, Logf: t.Logf,
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

// TestTimesDrawn: the way in which times of noised samples are drawn changes the weights.
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

// staged is small with two stages, which differ in whatever a stage may change that has a state. "#" comments out the
// lines that a test leaves out.
const staged = small + `
[[stage]]
name = "first"
iterations = 2
advantage = { estimator = "history", history = { min = 1 } }
optim = { betas = [0.5, 0.9], weight_decay = 0.1, ema = 0.5, schedule = "linear", warmup = 1 }
loss = { kl = { weight = 0.1, reference = "ema" } }
[[stage]]
name = "second"
iterations = 2
advantage = ADVANTAGE
optim = { BETAS, DECAY, EMA, schedule = "linear", warmup = 1 }
loss = { kl = { weight = 0.1, reference = "ema" } }
`

// stagedWith fills in the values of the second stage; nothing: those of the first.
func stagedWith(t *testing.T, other map[string]string) *experiment.Experiment {
	t.Helper()
	text := staged
	for name, same := range map[string]string{"ADVANTAGE": `{ estimator = "history", history = { min = 1 } }`, "BETAS": "betas = [0.5, 0.9]", "DECAY": "weight_decay = 0.1", "EMA": "ema = 0.5"} {
		if o, ok := other[name]; ok {
			same = o
		}
		text = string(bytes.Replace([]byte(text), []byte(name), []byte(same), 1))
	}
	return parseText(t, text, tiny(t))
}

func others() map[string]string {
	return map[string]string{"ADVANTAGE": `{ estimator = "history", history = { min = 1 }, clip = 0.5 }`, "BETAS": "betas = [0.9, 0.99]", "DECAY": "weight_decay = 0.5", "EMA": "ema = 0.9, ema_every = 2"}
}

// TestStages: a run that was stopped before, at or after the boundary of two stages leaves the
// bytes of one that never was.
func TestStages(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	if r, err := train(t, stagedWith(t, others()), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	want := contents(t, whole)
	for stop := 1; stop < 4; stop++ {
		parts := filepath.Join(dir, fmt.Sprint("parts", stop))
		if r, err := train(t, stagedWith(t, others()), parts, false, 1, stop); err != nil || r.Status != ledger.Interrupted {
			t.Fatalf("%v, %v", r, err)
		}
		if r, err := train(t, stagedWith(t, others()), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		same(t, fmt.Sprintf("stopped after %d", stop), want, contents(t, parts))
	}
	checkStagedRates(t, whole)
}

// checkStagedRates: every stage has a schedule of its own.
func checkStagedRates(t *testing.T, dir string) {
	t.Helper()
	var rates []float64
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		err := json.Unmarshal(text, &l)
		for _, u := range l.Updates {
			rates = append(rates, u.Rate)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(rates[:4]) != fmt.Sprint(rates[4:]) || rates[0] != 0 || rates[1] != 1e-2 || rates[3] >= rates[2] {
		t.Errorf("rates of two equal schedules: %v", rates)
	}
}

// TestStagesKeep: unchanged parts go on, and changed ones begin anew; each thing that the second stage changes,
// alone, moves the weights.
func TestStagesKeep(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	run := func(changed string) (adapter []byte, rewards int, c state) {
		other := map[string]string{}
		if how, ok := others()[changed]; ok {
			other[changed] = how
		}
		to := filepath.Join(dir, "changed"+changed)
		if _, err := train(t, stagedWith(t, other), to, false, 2, -1); err != nil {
			t.Fatal(err)
		}
		files := contents(t, to)
		if err := json.Unmarshal(files["checkpoints/000004/state.json"], &c); err != nil {
			t.Fatal(err)
		}
		for _, r := range c.History.Rewards {
			rewards += len(r)
		}
		return files["checkpoints/000004/adapter_model.safetensors"], rewards, c
	}
	same, all, c := run("")
	if all != 6*4 || c.Paces[0] != 8 || c.Since != 4 {
		t.Errorf("two stages alike: %d rewards, %v steps of averages, %d updates before", all, c.Paces, c.Since)
	}
	for name := range others() {
		history, counts := 4, 8 // iterations, and updates, of which there are two in each
		switch name {
		case "ADVANTAGE":
			history = 2
		case "EMA":
			counts = 4
		}
		adapter, n, c := run(name)
		if bytes.Equal(adapter, same) {
			t.Errorf("%s of the second stage changes nothing", name)
		}
		if n != 6*history || c.Paces[0] != counts || c.Since != 4 {
			t.Errorf("%s: %d rewards, %v steps of averages, %d updates before", name, n, c.Paces, c.Since)
		}
	}
}

// TestStagesRewards: a stage may train on other rewards than the one before, which measures them; stopped at the
// boundary, the run goes on with the same bytes.
func TestStagesRewards(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	text := small + `
[[stage]]
iterations = 2
[[stage]]
iterations = 2
weights = { sharpness = 0.0, jpeg = 3.0 }
`
	dir := t.TempDir()
	whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
	r, err := train(t, parseText(t, text), whole, false, 2, -1)
	if err != nil || r.Rewards["sharpness"] != "trained" || r.Rewards["jpeg"] != "trained" {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, l := range ledgerOf(t, whole) {
		want := l.Rewards["sharpness"].Mean
		if i >= 2 {
			want = 3 * l.Rewards["jpeg"].Mean
		}
		if math.Abs(l.Total.Mean-want) > 1e-12 {
			t.Errorf("iteration %d has the total %v, not %v", i+1, l.Total.Mean, want)
		}
	}
	if r, err := train(t, parseText(t, text), parts, false, 1, 2); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%v, %v", r, err)
	}
	if r, err := train(t, parseText(t, text), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	same(t, "stopped at the boundary", contents(t, whole), contents(t, parts))
}
