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
	for _, says := range []string{"evaluations: 4, of 64 samples and 1600 passes each", "time: about 3.6 h on one H100, 41 s an iteration: the network's 14.5 PFLOP at 350 TFLOP/s, as FLUX.1-dev ran there; rewards and decoding come on top\n", "--probe measures it on this machine"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in\n%s", says, out.String())
		}
	}
	e.Evaluate.Guided = 4.5 // at the start and the end, two passes a step
	if g := costOf(e, p, 64); g.Guided != 6400 || math.Abs(g.OnCard-c.OnCard-6400*37.6e12/cardRate) > 1e-6 {
		t.Errorf("with evaluate.guided: %+v", g)
	}
	e.Evaluate.Width, e.Evaluate.Height = 1440, 1440
	own := costOf(e, p, 64)
	if own.OnCard != 300*own.Iteration/cardRate || own.Evaluation != 0 || !own.OwnSize {
		t.Errorf("evaluations of another size: %+v", own)
	}
	out.Reset()
	own.write(&out, p)
	for _, says := range []string{", and 6400 passes with evaluate.guided\n", "; rewards, decoding and evaluations, which have a size of their own, come on top\n"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in\n%s", says, out.String())
		}
	}
	e.Evaluate.Width, e.Evaluate.Height, e.Evaluate.Guided = 0, 0, 0
	p.Memory.Work = model.Work{Pass: 1e9, Train: 3e9} // a small model
	if c := costOf(e, p, 0); c.OnCard != 0 || c.Evaluations != 0 {
		t.Errorf("%+v", c)
	}
	e.Episode = &experiment.Episode{}
	if c := costOf(e, p, 64); c.Passes != 0 || c.Iteration != 0 || c.Evaluations != 4 {
		t.Errorf("of conversations: %+v", c)
	}
}

func TestOperations(t *testing.T) {
	for n, want := range map[float64]string{3e14: "300 TFLOP", 1.45e16: "14.5 PFLOP", 2.5e18: "2500 PFLOP"} {
		if got := operations(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

func TestLasting(t *testing.T) {
	for seconds, want := range map[float64]string{0.5: "0.5 s", 42.3: "42 s", 99: "99 s", 99.7: "100 s", 9.94: "9.9 s", 110: "2 min", 5990: "100 min", 7200: "2.0 h", 86400: "24.0 h", 200000: "2.3 days"} {
		if got := lasting(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}
