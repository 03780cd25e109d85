package experiment

import "github.com/darkroom-rl/darkroom/trainer/loss"

// Card: where every ratio is exactly 1. Rollout and training run the same kernels, so the first update after a roll has
// ratios of exactly 1, and a ratio differs from 1 in a further update, or of a sample that earlier weights rolled. In a
// stage of one update, without lag and without a buffer there is neither: no clip range cuts a decision, a guard and a
// mask of ratios change nothing, and rounding cannot push a ratio over its range.

// OnPolicy reports whether every ratio of the experiment, or of one of its stages, is exactly 1.
func (e *Experiment) OnPolicy() bool {
	o, roll := e.Kind(), e.Rollout
	switch {
	case !o.Has(loss.Ratio) || !o.Has(loss.Advantages) || e.Optim.Updates > 1 || e.Run.Lag > 0 || roll.Buffer != nil:
		return false
	case e.Episode != nil && e.Episode.Noisy != nil: // learned from by its log-probabilities on other pictures
		return false
	}
	return true
}

// MeasuresFloor reports whether the noise of log-probabilities is measured as a stage begins: where a ratio may be cut
// by it, or a monitor watches it. Of episodes it takes no second network.
func (e *Experiment) MeasuresFloor() bool {
	switch {
	case e.Noised() || e.Loss.NoiseFloor == "off":
		return false
	case e.Episode != nil || !e.OnPolicy():
		return true
	}
	for _, m := range e.Monitors {
		if m.Watch == "noise_floor" {
			return true
		}
	}
	return false
}
