package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// staged is small with two stages, which differ in whatever a stage may change that has a state.
// "#" stands before what a test leaves out.
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

// stagedWith fills in what the second stage has; nothing: what the first has.
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

// TestStagesKeep: what stays as it was goes on, and what does not begins anew; each thing that the
// second stage changes, alone, moves the weights.
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
