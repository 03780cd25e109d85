package run

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// checkPolicy has the model check itself on samples that it just made, as a stage begins, says what it found, and
// decides what follows from a clip range that is below the noise floor.
func (t *training) checkPolicy(samples []trainer.Sample) (err error) {
	t.now.check, err = t.model.Check(t.loop.Objective, samples)
	c := t.now.check
	if err != nil || c == nil {
		return err
	}
	t.Say("iteration %d: %s", t.loop.Iteration+1, checkWords(c, t.now.turn.Episode != nil))
	if c.Floor == nil || c.ClipRange == 0 || *c.Floor <= c.ClipRange {
		return nil
	}
	why := fmt.Sprintf("rounding to %s moves log-probabilities further than the clip lets them go", t.Model.Precision)
	if t.now.turn.Episode != nil {
		why = "the engine's log-probabilities lie further from the trainer's than the clip lets an update move them"
	}
	says := fmt.Sprintf("clip_range = %.3g is below the noise floor, %.3g: %s", c.ClipRange, *c.Floor, why)
	if t.now.turn.Loss.NoiseFloor == "stop" {
		t.now.last = says
		return nil
	}
	t.Say("warning: iteration %d: %s", t.loop.Iteration+1, says)
	return nil
}

// checkWords are a check for people.
func checkWords(c *ledger.Check, tokens bool) string {
	of := "transitions"
	if tokens {
		of = "tokens"
	}
	s := fmt.Sprintf("before the first update the ratio is %v on %d %s", c.Ratio, c.Transitions, of)
	if c.Floor != nil {
		s += fmt.Sprintf(", the noise floor %.3g", *c.Floor)
	}
	if c.ClipRange > 0 {
		s += fmt.Sprintf(" (clip_range %.3g)", c.ClipRange)
	}
	return s
}
