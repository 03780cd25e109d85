package run

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestStates: a run has the same bytes wherever the states of its parameters lie, on one, two and four devices, and
// where it goes on with states elsewhere and on another number of devices: of pictures in full with other sets of
// weights, and, with -long, with an adapter, in fp32, and of episodes.
func TestStates(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded models: seconds, and minutes without assembly; left out by -short")
	}
	for name, e := range map[string]func(t *testing.T, sets ...string) *experiment.Experiment{
		"lora": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parse(t, append(sets, "run.iterations=2", "rollout.prompts_per_iteration=1")...)
		},
		"f32": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parse(t, append(sets, "run.iterations=2", "model.train=full", "model.precision=f32", "rollout.prompts_per_iteration=1", "rollout.group=4", "sampler.steps=3")...)
		},
		"full": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parse(t, append(sets, "run.iterations=2", "model.train=full", "rollout.prompts_per_iteration=1", "rollout.group=4", "sampler.steps=3", "optim.updates=2", "optim.ema=0.5", "evaluate.weights=ema", "loss.kl={ weight = 0.1, reference = \"base\" }")...)
		},
		"episodes": func(t *testing.T, sets ...string) *experiment.Experiment {
			return homed()["tiny-vlm"](t, append(sets, "model.train=full")...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "full" && !*long {
				t.Skip("all models: -long, .ci/run slow")
			}
			t.Parallel()
			dir := t.TempDir()
			var want map[string][]byte
			type place struct {
				states string
				ranks  int
			}
			places := []place{{"device", 1}, {"ranks", 2}, {"host", 2}}
			if *long {
				places = append(places, place{"ranks", 4}, place{"host", 1}, place{"device", 2})
			}
			for i, x := range places {
				sets := func(states string, ranks int) []string {
					return []string{"run.shards=4", "run.states=" + states, "run.device=cpu" + strings.Repeat(",cpu", ranks-1)}
				}
				to := filepath.Join(dir, strconv.Itoa(i))
				resumed := i == 2
				if resumed {
					if _, err := trainOn(t, e(t, sets("ranks", 3)...), to, false, 3, 1); err != nil {
						t.Fatal(err)
					}
				}
				if r, err := trainOn(t, e(t, sets(x.states, x.ranks)...), to, resumed, x.ranks, -1); err != nil || r.Status != ledger.Finished {
					t.Fatalf("%v: %v, %v", x, r, err)
				}
				if want == nil {
					want = contents(t, to)
					continue
				}
				same(t, x.states+" "+strconv.Itoa(x.ranks), want, contents(t, to))
			}
		})
	}
}

// TestStatesLost: a device that fails in the step of its parameters ends the run with its name, and the run goes
// on to the same bytes.
func TestStatesLost(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	e := func() *experiment.Experiment {
		return parse(t, "run.iterations=2", "run.shards=2", "run.states=ranks", "run.device=cpu,cpu", "model.train=full", "rollout.prompts_per_iteration=1", "rollout.group=2", "sampler.steps=3", "evaluate.every=0")
	}
	whole, broken := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "broken")
	if _, err := trainOn(t, e(), whole, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	good := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
	bad := &breaking{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 1}), at: "AdamW", does: func() { panic(noMemory{}) }}
	o := Options{Dir: broken, Logf: t.Logf, Backend: good, Further: []kernels.Backend{bad}, Report: func(*ledger.Line, *ledger.TimingLine) { bad.armed.Store(true) }}
	_, err = Run(context.Background(), e(), o)
	f := new(exchange.Failure)
	if !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("a rank that fails in its step: %v", err)
	}
	good.Close()
	bad.Backend.(*cpu.Backend).Close()
	if _, err := trainOn(t, e(), broken, true, 2, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "after the failure", contents(t, whole), contents(t, broken))
}
