package plan

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestCost: a run's time on a card is its passes by their operations; of FLUX.1-dev at 720 x 720 it is near the
// measured 42 s an iteration.
func TestCost(t *testing.T) {
	e := &experiment.Experiment{}
	e.Run.Iterations, e.Evaluate.Every, e.Sampler.EvalSteps, e.Sampler.Guidance = 300, 100, 25, 1
	p := Document{Plan: &experiment.Plan{Iterations: 300, Stages: []experiment.StagePlan{{Iterations: 300, Counts: &experiment.Counts{Rollout: 289, Backward: 48}}}},
		Memory: &memoryPlan{Memory: model.Memory{Work: model.Work{Pass: 37.6e12, Train: 75e12}}}}
	c := costOf(e, p, 64)
	if c.Evaluations != 4 || c.Passes != 1600 || math.Abs(c.Iteration-(289*37.6e12+48*75e12)) > 1 || c.Evaluation != 1600*37.6e12 {
		t.Errorf("%+v", c)
	}
	if want := (300*c.Iteration + 4*c.Evaluation) / cardRate; c.OnCard != want {
		t.Errorf("%v s, want %v", c.OnCard, want)
	}
	var out bytes.Buffer
	c.write(&out, p)
	for _, says := range []string{"evaluations: 4, of 64 samples and 1600 passes each", "time: about 3.6 h on one H100, 41 s an iteration", "--probe measures it on this machine"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in\n%s", says, out.String())
		}
	}
	p.Memory.Work = model.Work{Pass: 1e9, Train: 3e9} // a small model
	if c := costOf(e, p, 0); c.OnCard != 0 || c.Evaluations != 0 {
		t.Errorf("%+v", c)
	}
	e.Episode = &experiment.Episode{}
	if c := costOf(e, p, 64); c.Passes != 0 || c.Iteration != 0 || c.Evaluations != 4 {
		t.Errorf("of conversations: %+v", c)
	}
}

func TestLasting(t *testing.T) {
	for seconds, want := range map[float64]string{0.5: "0.5 s", 42.3: "42 s", 99: "99 s", 110: "2 min", 5990: "100 min", 7200: "2.0 h", 86400: "24.0 h", 200000: "2.3 days"} {
		if got := lasting(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}
