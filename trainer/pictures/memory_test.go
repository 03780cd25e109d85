package pictures

import (
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
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

// TestCheckFitsIntoTraining: the check before the first update takes no more memory than training, whatever is trained and
// however much goes through the network at once.
func TestCheckFitsIntoTraining(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	for _, sets := range [][]string{
		{}, {"rollout.group=2", "rollout.prompts_per_iteration=1"}, {"rollout.group=12"}, {"model.train=['.*']", "rollout.group=2"},
		{"sampler.width=128", "sampler.height=128", "model.lora.rank=1"},
	} {
		for _, budget := range []int64{0, 1} { // with all that makes it fast, and with nothing
			need, err := Memory(parse(t, sets...), cpu.NewDry(cpu.Options{Path: path}), budget)
			if err != nil {
				t.Fatal(err)
			}
			if need.Check == 0 || need.Check > need.Training {
				t.Errorf("%q, budget %d: the check takes %d bytes, training %d", sets, budget, need.Check, need.Training)
			}
		}
	}
}

// TestNoiseFloorInPieces: the noise floor has the bits that a network in fp32 gives which is in memory as a whole.
func TestNoiseFloorInPieces(t *testing.T) {
	for _, sets := range [][]string{{"rollout.group=2"}, {"rollout.group=2", "model.train=['transformer_blocks.[01].attn.to_[qkv].*']"}} {
		e := parse(t, append(sets, "sampler.width=32", "sampler.height=32", "sampler.steps=3")...)
		list, err := e.Open(e.Rollout.Prompts)
		if err != nil {
			t.Fatal(err)
		}
		be, err := cpu.New()
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		m, err := Open(e, model.Options{Backend: be, Train: list})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		turn, err := e.Turn(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Begin(turn, rng.New(1), 1); err != nil {
			t.Fatal(err)
		}
		o, err := m.Objective(turn, m)
		if err != nil {
			t.Fatal(err)
		}
		samples, err := m.Roll(trainer.Current, []trainer.Key{{Prompt: 0}, {Prompt: 0, Sample: 1}, {Prompt: 1}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := m.Check(o, samples)
		if err != nil || found.Floor == nil || *found.Floor == 0 {
			t.Fatalf("%+v, %v", found, err)
		}
		m.opened.Precision = pipeline.F32
		whole, err := pipeline.Open(m.Pipeline.Dir(), m.opened)
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		params, err := whole.Denoiser()
		if err != nil {
			t.Fatal(err)
		}
		if m.adapter != nil {
			if _, err := m.adapter.PutOn(params); err != nil {
				t.Fatal(err)
			}
			theirs := params.Trained()
			for i, p := range m.Moved() {
				theirs[i].Value.UploadF32(p.Value.F32())
			}
		}
		own := *m.Policy
		own.Pipeline = whole
		apart, err := logProbsBy(&own, o.(trainer.PolicyGradient), samples, chosen(samples))
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, d := range apart {
			want += d * d / float64(len(apart))
		}
		if want = math.Sqrt(want); *found.Floor != want {
			t.Errorf("%q: %v, and of the whole network %v", sets, *found.Floor, want)
		}
	}
}
