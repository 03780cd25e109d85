package toy

import (
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// TestMemories: one that keeps nothing is the current weights, the reference stays.
func TestMemories(t *testing.T) {
	p, tr := newRun(t, 6)
	before := p.Weights(trainer.Reference)
	tr.Memories = []trainer.Memory{{Weights: trainer.Old, Pace: optim.Pace{Shape: optim.Decay{Kind: "constant"}}}}
	if _, err := tr.Step(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Weights(trainer.Reference), before) || slices.Equal(p.Weights(trainer.Current), before) {
		t.Error("the reference moved, or the weights did not")
	}
	for i, w := range p.Weights(trainer.Old) {
		if math.Abs(w-p.sets[trainer.Current][i]) > 1e-15 {
			t.Errorf("old weight %d is %v, want %v", i, w, p.sets[trainer.Current][i])
		}
	}
}

// TestMemoriesCount: with two updates an iteration, weights that follow each update have moved twice after
// one, and those that follow an iteration once.
func TestMemoriesCount(t *testing.T) {
	_, tr := newRun(t, 6)
	tr.Optim.Updates = 2
	pace := optim.Pace{Limit: 0.5, Shape: optim.Decay{Kind: "constant"}, Every: 3}
	tr.Memories = []trainer.Memory{{Weights: trainer.Old, Pace: pace}, {Weights: trainer.Average, Pace: pace, EachUpdate: true}}
	r, err := tr.Step()
	if err != nil || len(r.Updates) != 2 {
		t.Fatalf("%d updates, %v", len(r.Updates), err)
	}
	if old, average := tr.Memories[0].Pace.T, tr.Memories[1].Pace.T; old != 1 || average != 2 {
		t.Errorf("after one iteration of two updates: %d and %d steps", old, average)
	}
}
