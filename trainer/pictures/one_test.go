package pictures_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// TestOne: samples of a prompt draw at one step, which is drawn for it, and are judged there alone; the first ratio is
// 1, and weights by step are 1 on average.
func TestOne(t *testing.T) {
	dir := filepath.Join(golden.Folder("models"), "pipe_sd3")
	window := []int{0, 1, 2, 3}
	p := painterOf(t, network{dir, 32, 0}, pipeline.BF16, 1, flowSDE, sde.Euler)
	schedule, err := p.Pipeline.Schedule(steps, p.At)
	if err != nil {
		t.Fatal(err)
	}
	_, p.Rows = sde.Plan{Window: window, Inside: flowSDE, Outside: sde.Euler}.Rows(schedule)
	_, quiet := sde.Plan{Inside: sde.Euler, Outside: sde.Euler}.Rows(schedule)
	p.Trained, p.One = window, &pictures.One{Window: window, Deterministic: quiet}
	var keys []trainer.Key
	for i := range 16 {
		keys = append(keys, trainer.Key{Iteration: i / 4, Prompt: i / 2 % 2, Sample: i % 2})
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	advantages := make([]float64, len(samples))
	for i, s := range samples {
		if len(s.Decisions.Step) != 1 {
			t.Fatalf("sample %d decided %d times", i, len(s.Decisions.Step))
		}
		seen[s.Decisions.Step[0]], advantages[i] = true, 1
		if i%2 == 1 && s.Decisions.Step[0] != samples[i-1].Decisions.Step[0] {
			t.Errorf("samples of a prompt drew at the steps %d and %d", samples[i-1].Decisions.Step[0], s.Decisions.Step[0])
		}
	}
	if len(seen) < 3 {
		t.Errorf("eight prompts drew at the steps %v", seen)
	}
	clip := loss.Clip{Clipping: loss.Clipped(1e-3, 0, 0), AdvLow: 5, AdvHigh: 5}
	b, err := trainer.PolicyGradient{Even: true, Weigh: sde.Rectified, Rows: p.Rows, Loss: clip.Of}.Evaluate(p, samples, advantages)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.Metrics["ratio"] {
		if r != 1 {
			t.Fatalf("ratios %v", b.Metrics["ratio"])
		}
	}
	if math.Abs(b.Loss+1) > 1e-12 {
		t.Errorf("the loss of equal advantages is %v: weights are not 1 on average", b.Loss)
	}
}

// TestOwnWindows: samples of a prompt draw in the prompt's own window and are judged there alone, those of others
// elsewhere; the first ratio is 1, and decisions weigh the same.
func TestOwnWindows(t *testing.T) {
	dir := filepath.Join(golden.Folder("models"), "pipe_sd3")
	w := sde.DefaultWindow()
	w.Kind, w.Size, w.Own = "random", 2, true
	p := painterOf(t, network{dir, 32, 0}, pipeline.BF16, 1, flowSDE, sde.Euler)
	schedule, err := p.Pipeline.Schedule(steps, p.At)
	if err != nil {
		t.Fatal(err)
	}
	reach := w.Reach(steps)
	_, p.Rows = sde.Plan{Window: reach, Inside: flowSDE, Outside: sde.Euler}.Rows(schedule)
	_, quiet := sde.Plan{Inside: sde.Euler, Outside: sde.Euler}.Rows(schedule)
	p.Trained, p.One = reach, &pictures.One{Window: reach, Deterministic: quiet, Own: func(draw func(n int) int) []int { return w.OwnSteps(steps, draw) }}
	var keys []trainer.Key
	for i := range 12 {
		keys = append(keys, trainer.Key{Iteration: i / 4, Prompt: i / 2 % 2, Sample: i % 2})
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	seen, advantages := map[int]bool{}, make([]float64, len(samples))
	for i, s := range samples {
		at := s.Decisions.Step
		if len(at) != 2 || at[1] != at[0]+1 || i%2 == 1 && at[0] != samples[i-1].Decisions.Step[0] {
			t.Fatalf("sample %d decided at %v, the one before it at %v", i, at, samples[max(0, i-1)].Decisions.Step)
		}
		seen[at[0]], advantages[i] = true, 1
	}
	if len(seen) < 2 {
		t.Errorf("six windows begin at %v", seen)
	}
	clip := loss.Clip{Clipping: loss.Clipped(1e-3, 0, 0), AdvLow: 5, AdvHigh: 5}
	b, err := trainer.PolicyGradient{Even: true, Rows: p.Rows, Loss: clip.Of}.Evaluate(p, samples, advantages)
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Metrics["ratio"]; len(r) != 24 || slices.Max(r) != 1 || slices.Min(r) != 1 || math.Abs(b.Loss+1) > 1e-12 {
		t.Errorf("the loss is %v, ratios are %v", b.Loss, r)
	}
}
