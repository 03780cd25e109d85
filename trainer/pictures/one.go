package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// One is a window of which each prompt of an iteration takes one step: its samples draw there, and are judged there
// alone, so that a sample is trained for the price of one step (Flash-GRPO). Until then a group that starts together is
// one to the network.
//
// Invariant (tests): samples of a prompt draw at the same step, those of others may draw elsewhere, and each has one
// decision.
type One struct {
	Window []int
	Quiet  []sde.Row // of steps where a sample does not draw
}

// oneOf is a turn's; nil where samples draw at every step of the window.
func oneOf(turn experiment.Turn) (*One, error) {
	if !turn.Sampler.Window.One || turn.Evaluates || turn.Noised() {
		return nil, nil
	}
	quiet, err := turn.Quiet()
	return &One{turn.Window, quiet}, err
}

// step is where a key's sample draws.
func (o *One) step(d trainer.Draws, k trainer.Key) int {
	k.Sample = 0
	return sde.OneOf(o.Window, d.Of("the one step", k).Draw().Float64())
}

// draw says what a picture draws.
func (o *One) draw(pic *pipeline.Picture, d trainer.Draws, k trainer.Key) {
	at, key := o.step(d, k), pic.StepKey
	pic.Draw = func(s int) pipeline.Draw {
		if s != at {
			return pipeline.Draw{}
		}
		return pipeline.Draw{On: true, Key: key.Step(s), Scale: 1}
	}
}
