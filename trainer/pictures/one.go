package pictures

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// One has the settings of each prompt of an iteration by itself. It is one step of the window: its samples draw
// there, and are judged there alone, so that a sample is trained for the price of one step (Flash-GRPO). With Own it
// is a whole window (UniRL), drawn for the prompt as an iteration's is drawn for all. Until its first step that
// draws, a group that starts together is one to the network.
//
// Invariant (tests): samples of a prompt draw at the same steps, those of others may draw elsewhere, and each has a
// decision at every step that it draws at, and no other.
type One struct {
	Window        []int
	Own           func(draw func(n int) int) []int // nil: one step of Window
	Deterministic []sde.Row                        // of steps where a sample does not draw
}

// oneOf is an iteration's; nil where samples draw at every step of the window.
func oneOf(settings experiment.Settings) (*One, error) {
	w := settings.Sampler.Window
	if !w.One && !w.Own || settings.Evaluates || settings.Noised() {
		return nil, nil
	}
	quiet, err := settings.Deterministic()
	o := &One{Window: settings.Window, Deterministic: quiet}
	if w.Own {
		o.Own = func(draw func(n int) int) []int { return w.OwnSteps(settings.Sampler.Steps, draw) }
	}
	return o, err
}

// steps are where a key's sample draws.
func (o *One) steps(d trainer.Draws, k trainer.Key) []int {
	k.Sample = 0
	if o.Own != nil {
		return o.Own(d.Of("own window", k).Draw().Intn)
	}
	return []int{o.step(d, k)}
}

// step is the one step of a key without its sample.
func (o *One) step(d trainer.Draws, k trainer.Key) int {
	return sde.OneOf(o.Window, d.Of("the one step", k).Draw().Float64())
}

// draw sets a picture's draws.
func (o *One) draw(pic *pipeline.Picture, d trainer.Draws, k trainer.Key) {
	at, key := o.steps(d, k), pic.StepKey
	pic.Draw = func(s int) pipeline.Draw {
		if !slices.Contains(at, s) {
			return pipeline.Draw{}
		}
		return pipeline.Draw{On: true, Key: key.Step(s), Scale: 1}
	}
}
