package main

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
)

// TestSuiteTurns: a run's suites have as many turns as its evaluations, unless a flag says otherwise.
func TestSuiteTurns(t *testing.T) {
	for _, c := range []struct{ flag, evaluate, want int }{{0, 32, 32}, {0, 0, 6}, {2, 32, 2}} {
		r := &trained.Run{Experiment: &experiment.Experiment{}}
		r.Experiment.Evaluate.Turns = c.evaluate
		o, e := suiteOptions{}, &experiment.Episode{}
		if o.turns = c.flag; c.flag == 0 {
			e.Turns = 6
		} else {
			e.Turns = c.flag // as asked has it
		}
		if o.evaluated(r, e); e.Turns != c.want {
			t.Errorf("%+v: %d turns", c, e.Turns)
		}
	}
}
