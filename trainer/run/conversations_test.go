package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// ledgerOf is a run's lines.
func ledgerOf(t *testing.T, dir string) (all []ledger.Line) {
	t.Helper()
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		err := json.Unmarshal(text, &l)
		all = append(all, l)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSpokenRuns: baselines of tokens other than their group, and groups whose members see different pictures.
func TestSpokenRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	model := speaker(t)
	t.Run("values", func(t *testing.T) { testCritic(t, model) })
	t.Run("values after a rollback", func(t *testing.T) { testCriticSlows(t, model) })
	t.Run("likeliest answers", func(t *testing.T) { testReMax(t, model) })
	t.Run("distorted pictures", func(t *testing.T) { testNoisy(t, model) })
	t.Run("shuffled frames", func(t *testing.T) { testShuffled(t, model) })
	t.Run("guided", func(t *testing.T) { testGuided(t, model) })
	t.Run("trees of turns", func(t *testing.T) { testStems(t, model) })
}

// testCritic: PPO with a head of values trains, stops and goes on with the same bytes, in its warm-up and behind it.
// In the first update values are those of the roll; while the head learns alone the policy stays where it was, and
// then every ratio of a first update is 1 and the loss of values falls.
func testCritic(t *testing.T, model string) {
	dir := t.TempDir()
	sets := []string{model, "run.iterations=3", "evaluate.every=0", "evaluate.prompts=''", "advantage.estimator=gae", "loss.kl.weight=0", "loss.value.warmup=1", "loss.value.lr=2e-4", "loss.value.clip_range=50", "rollout.buffer={}"}
	whole := filepath.Join(dir, "whole")
	if r, err := train(t, parseText(t, talking, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	want := contents(t, whole)
	parts := filepath.Join(dir, "parts")
	for _, stop := range []int{1, 2, -1} {
		if r, err := train(t, parseText(t, talking, sets...), parts, stop > 1 || stop < 0, 1, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
			t.Fatalf("%v, %v", r, err)
		}
	}
	same(t, "stopped twice", want, contents(t, parts))
	lines := ledgerOf(t, whole)
	for i, l := range lines {
		if len(l.Updates) != 2 {
			t.Fatalf("iteration %d has %d updates", i+1, len(l.Updates))
		}
		first, second := l.Updates[0], l.Updates[1]
		if first.RatioMost != 1 || (second.RatioMost == 1) != (i == 0) || (first.Gradient == 0) != (i == 0) {
			t.Errorf("iteration %d: ratios %v and %v, gradient %v", i+1, first.RatioMost, second.RatioMost, first.Gradient)
		}
		if v := first.Metrics["value_loss"]; v <= 0 || second.Metrics["value_loss"] >= v || first.Metrics["value_clipped"] != 0 {
			t.Errorf("iteration %d: losses of values %v and %v, %v were cut", i+1, v, second.Metrics["value_loss"], first.Metrics["value_clipped"])
		}
	}
}

// testCriticSlows: a rollback multiplies the learning rate of the head of values, too. Here by so
// little that the head stays where it was.
func testCriticSlows(t *testing.T, model string) {
	dir := filepath.Join(t.TempDir(), "run")
	r, err := train(t, parseText(t, talking, model, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "advantage.estimator=gae", "loss.kl.weight=0", "loss.value.lr=1e-2",
		"monitor=[{watch='lr', rises_above=0, then='rollback', rollback={lr_scale=1e-12, most=1}}]"), dir, false, 2, -1)
	if err != nil || r.Status != ledger.Stopped || r.Iterations != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	before, after := headOf(t, dir, 0), headOf(t, dir, 1)
	for i := range before {
		if d := after[i] - before[i]; d > 1e-6 || d < -1e-6 {
			t.Fatalf("weight %d of the head was %v, and is %v", i, before[i], after[i])
		}
	}
}

// headOf are the weights of a checkpoint's head of values.
func headOf(t *testing.T, dir string, iteration int) []float32 {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "checkpoints", fmt.Sprintf("%06d", iteration), model.TensorsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := f.Tensor("value.weights.0")
	if err != nil {
		t.Fatal(err)
	}
	all, err := x.Float32(nil)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d weights, %v", len(all), err)
	}
	return all
}

// testReMax: the likeliest answers are the baseline. Where all samples are the likeliest, the baseline is their
// reward, and nothing moves, though each has no group.
func testReMax(t *testing.T, model string) {
	for temperature, still := range map[string]bool{"1e-6": true, "1.5": false} {
		dir := filepath.Join(t.TempDir(), "run")
		e := parseText(t, talking, model, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "advantage.estimator=remax", "loss.kl.weight=0",
			"optim.updates=1", "rollout.group=1", "rollout.prompts_per_iteration=6", "episode.sampling.temperature="+temperature)
		if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		gradient := 0.0
		for i, l := range ledgerOf(t, dir) {
			checkWatched(t, e, &l)
			greedy, ok := l.Value("episode.greedy")
			if !ok || still && greedy != l.Total.Mean {
				t.Errorf("iteration %d: the likeliest answers earn %v, samples that are the same %v", i+1, greedy, l.Total.Mean)
			}
			for _, u := range l.Updates {
				gradient += u.Gradient
			}
		}
		if (gradient == 0) != still {
			t.Errorf("at temperature %s gradients are %v", temperature, gradient)
		}
	}
}

// testNoisy: with old = "clean" the first ratio is 1, with "rolled" it is the ledger's ratio of the distorted ones,
// without a warning; either goes on with the same bytes.
func testNoisy(t *testing.T, model string) {
	for _, old := range []string{"clean", "rolled"} {
		dir := t.TempDir()
		sets := []string{model, "run.iterations=2", "evaluate.every=0", "evaluate.prompts=''", "loss.kl.weight=0", "optim.updates=1", "advantage.all_dead=train",
			"episode.noisy={ strength = 900, middle = 2, coef = 1, old = \"" + old + "\" }"}
		whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
		if r, err := train(t, parseText(t, talking, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		lines := ledgerOf(t, whole)
		for i, l := range lines {
			n := l.Noisy
			if n == nil || n.Samples != 4 || n.Mismatch == 0 || n.Expected != (old == "rolled") || len(l.Updates) != 1 {
				t.Fatalf("old = %s, iteration %d: %+v, %d updates", old, i+1, n, len(l.Updates))
			}
			want := 1.0
			if n.Expected {
				want = n.RatioMost
			}
			if got := l.Updates[0].RatioMost; got != want {
				t.Errorf("old = %s, iteration %d: the first ratio is %v, not %v", old, i+1, got, want)
			}
		}
		if lines[0].Noisy.Step <= lines[1].Noisy.Step {
			t.Errorf("noise is not annealed: steps %d and %d", lines[0].Noisy.Step, lines[1].Noisy.Step)
		}
		if old == "clean" {
			continue
		}
		for _, stop := range []int{1, -1} {
			if r, err := train(t, parseText(t, talking, sets...), parts, stop < 0, 1, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
				t.Fatalf("%v, %v", r, err)
			}
		}
		same(t, "stopped", contents(t, whole), contents(t, parts))
	}
}
