package run

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

var rewrite = flag.Bool("record", false, "write the curves of the shipped experiments anew")

// small4 is a sampler of four steps with a window of two.
var small4 = []string{"sampler.steps=4", "sampler.window.size=2", "sampler.window.drop=1"}

// reduced are the settings that make each shipped experiment small enough for a test. One that is added to
// assets/configs is added here, and its curve recorded by
//
//	go test ./trainer/run -run TestConfigs -record
var reduced = map[string][]string{
	"quickstart":     append([]string{"stage.0.iterations=1", "stage.1.iterations=1", "stage.1.rollout.prompts_per_iteration=2", "stage.1.optim.updates=2"}, small4...),
	"awm":            few,
	"cps":            small2,
	"cold_start":     {imitate + `{name="decide", iterations=1}]`},
	"dance":          few,
	"dpo_offline":    {"sampler.steps=4", "rollout.group=2"},
	"clip":           few,
	"clip_naive":     few,
	"edit":           small4,
	"edit_naive":     small4,
	"flow_dpo":       few,
	"flow_dppo":      small2,
	"flow_grpo":      few,
	"flow_grpo_fast": small2,
	"grpo_guard":     small4,
	"layout":         small4,
	"nft":            few,
	"rwr":            few,
	"srpo":           few,
	"staged":         append([]string{"stage=[{iterations=1, sampler.solver=\"euler\", rollout.shared_noise=false, loss.objective=\"nft\"}, {iterations=1, optim.lr=5e-4}]"}, small4...),
	"branchgrpo":     {"sampler.steps=4", "sampler.tree.splits=[0, 1]"},
	"mixgrpo":        small4,
	"mixgrpo_flash":  {"sampler.steps=6", "sampler.window.size=2", "sampler.window.every=1"},
	"watch_gold":     few,
	"zoom":           nil,
	"zoom_blind":     nil,
	"tempflow":       append([]string{"sampler.tree.children=2"}, small4...),
}

// imitate is an iteration of lessons, and another stage behind it.
const imitate = `stage=[{name="imitate", iterations=1, loss.objective="sft", rollout={lessons="embed:zoom-lessons", group=1}, ` +
	`optim={lr=2e-4, schedule="cosine", weight_decay=0.01}}, `

// few is a sampler of four steps, and small2 one with a window of two in its first half.
var (
	few    = []string{"sampler.steps=4"}
	small2 = []string{"sampler.steps=4", "sampler.window.drop=2"}
)

// looking are those of models that speak, changing those of models that change pictures, with the lists that are held
// out; reducedSampler is added to all but the first.
var (
	looking  = map[string]string{"cold_start": "embed:zoom-heldout", "zoom": "embed:zoom-heldout", "zoom_blind": "embed:zoom-heldout"}
	changing = map[string]string{"edit": "embed:edits-in-place-heldout", "edit_naive": "embed:edits-in-place-heldout",
		"clip": "embed:animate64-heldout", "clip_naive": "embed:animate64-heldout"}
	reducedSampler = []string{"sampler.eval_steps=2"}
)

// reducedAll is set over every one of them before its own.
var reducedAll = []string{"run.iterations=2", "rollout.prompts_per_iteration=2", "rollout.group=4",
	"evaluate.every=2", "evaluate.samples=1", "checkpoint.every=100"}

// A point is a curve's record of an iteration: numbers of the ledger that change with the computation, and that a
// further key of the ledger does not change.
type point struct {
	Iteration int                       `json:"iteration"`
	Window    []int                     `json:"window"`
	Prompts   []int                     `json:"prompts"`
	Total     ledger.Spread             `json:"total"`
	Rewards   map[string]ledger.Spread  `json:"rewards"`
	Updates   []moved                   `json:"updates"`
	HeldOut   map[string]ledger.Measure `json:"heldout,omitempty"`
}

type moved struct {
	Loss      float64 `json:"loss"`
	Gradient  float64 `json:"gradient"`
	Rate      float64 `json:"lr"`
	RatioMean float64 `json:"ratio_mean"`
	RatioMost float64 `json:"ratio_most"`
}

// long takes all instead of a part: every curve and its second iteration (.ci/run curves), models, presets, rows of
// docs/coverage.md, fleets, causes.
var long = flag.Bool("long", false, "take all curves, models, presets, rows and fleets, not some")

// covered are the experiments whose way through the program another one has: the window, the ratio or the preference
// of samples is another, and its own package tests that computation.
var covered = []string{"clip_naive", "edit_naive", "flow_dpo", "flow_dppo", "flow_grpo_fast", "grpo_guard", "mixgrpo", "watch_gold", "zoom_blind"}

// TestConfigs: the first iteration of the shipped experiments, at a test size, has the numbers that were recorded, to
// the last bit: on any CPU, with any number of threads.
// -long compares all of them, and both iterations.
func TestConfigs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	entire := *rewrite || *long
	if !entire {
		t.Logf("the first line of the curves but those of %s; -long compares all lines of all", strings.Join(covered, ", "))
	}
	names := assets.Configs()
	for name := range reduced {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not in assets/configs", name)
		}
	}
	for _, name := range names {
		sets, ok := reduced[name]
		if !ok {
			t.Errorf("%s has no line in reduced: say how it becomes small", name)
		}
		if !ok || !entire && slices.Contains(covered, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			got := curve(t, shipped(t, name, sets), filepath.Join(dir, "run"), entire)
			file := filepath.Join("testdata", "curves", name+".jsonl")
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !entire {
				want = slices.Collect(bytes.Lines(want))[0]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the curve is not the recorded one (%s):\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

// shipped is an experiment of assets/configs with overrides.
func shipped(t *testing.T, name string, sets []string) *experiment.Experiment {
	t.Helper()
	text, err := assets.Config(name)
	if err != nil {
		t.Fatal(err)
	}
	held, lines := filepath.Join(t.TempDir(), "heldout.txt"), []byte("a red circle on white\ntwo blue squares on black\n")
	if list := looking[name] + changing[name]; list != "" {
		held, lines = held[:len(held)-len("txt")]+"jsonl", firstOf(t, list, 2)
	}
	if looking[name] == "" {
		sets = slices.Concat(reducedSampler, sets)
	}
	if err := os.WriteFile(held, lines, 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Parse(name+".toml", text, slices.Concat(reducedAll, []string{"evaluate.prompts=" + held}, sets))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// firstOf are the first of an embedded list, as a file has them.
func firstOf(t *testing.T, name string, n int) []byte {
	t.Helper()
	list, err := prompts.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, p := range list[:n] {
		if err := json.NewEncoder(&out).Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// curve is a run's points, a line each; of a run that is not to be entire, the first.
func curve(t *testing.T, e *experiment.Experiment, dir string, entire bool) []byte {
	t.Helper()
	stop, lines := 1, 1
	if entire {
		stop, lines = -1, e.Run.Iterations
	}
	if _, err := train(t, e, dir, false, 2, stop); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to, n := json.NewEncoder(&out), 0
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		p := point{Iteration: l.Iteration, Window: l.Window, Prompts: l.Prompts, Total: l.Total, Rewards: l.Rewards, HeldOut: l.HeldOut}
		for _, u := range l.Updates {
			p.Updates = append(p.Updates, moved{u.Loss, u.Gradient, u.Rate, u.RatioMean, u.RatioMost})
		}
		n++
		return to.Encode(p)
	}); err != nil {
		t.Fatal(err)
	}
	if n != lines {
		t.Fatalf("%d lines in the ledger of %d iterations", n, lines)
	}
	return out.Bytes()
}
