package run

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
)

// checkPolicy has the model check itself on samples that it just made, as a stage begins, and decides what
// follows from a clip range that is below the noise floor.
func (t *training) checkPolicy(samples []trainer.Sample) (err error) {
	t.now.check, err = t.model.Check(t.loop.Objective, samples)
	c := t.now.check
	if err != nil || c == nil || c.Floor == nil || c.ClipRange == 0 || *c.Floor <= c.ClipRange {
		return err
	}
	says := fmt.Sprintf("clip_range = %.3g is below the noise floor, %.3g: rounding to %s moves log-probabilities further than the clip lets them go", c.ClipRange, *c.Floor, t.Model.Precision)
	if t.now.turn.Loss.NoiseFloor == "stop" {
		t.now.last = says
		return nil
	}
	t.Say("warning: iteration %d: %s", t.loop.Iteration+1, says)
	return nil
}
