package pictures

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestMemoryFits: the less a run may take, the fewer pictures go through the network at once, and at last backward
// computes passes again; each step takes less, and what fits is taken.
func TestMemoryFits(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	e := parse(t, "rollout.group=8", "loss.noise_floor=off", "sampler.width=64", "sampler.height=64")
	predict := func(budget int64) *model.Memory {
		t.Helper()
		need, err := Memory(e, cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		return need
	}
	free := predict(0)
	if free.Fit != (model.Fit{}) {
		t.Fatalf("without a budget %+v", free.Fit)
	}
	var chosen []model.Fit
	for last := free; !last.Checkpointing; {
		budget := model.ProgramBytes + last.Peak() - 1
		next := predict(budget)
		if next.Training >= last.Training {
			t.Errorf("%+v takes %d bytes in training, %+v %d", next.Fit, next.Training, last.Fit, last.Training)
		}
		if !next.Within(budget, 1) && !next.Checkpointing {
			t.Errorf("%+v does not fit, and is taken", next.Fit)
		}
		if chosen = append(chosen, next.Fit); len(chosen) > 9 {
			t.Fatalf("no end: %+v", chosen)
		}
		last = next
	}
	if chosen[0].Micro == 0 || len(chosen) < 3 || !slices.IsSortedFunc(chosen, func(a, b model.Fit) int { return b.Micro - a.Micro }) {
		t.Errorf("chosen: %+v", chosen)
	}
}
