package model

import (
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Needed are the sets of weights that any turn asks for beside the current ones.
func Needed(e *experiment.Experiment) []trainer.Weights {
	asked := map[trainer.Weights]bool{}
	for _, at := range e.Turns() {
		kl, kind := at.Loss.KL, at.Kind()
		compared := kl.Weight > 0 || kind.Has(loss.Reference)
		if compared && (kl.Reference == "base" || kl.Reference == "stage") {
			asked[trainer.Reference] = true
		}
		if kind.Has(loss.OldWeights) || compared && kl.Reference == "old" && kind.OfFinished() {
			asked[trainer.Old] = true
		}
		if at.Optim.EMA > 0 {
			asked[Average(at)] = true
		}
	}
	var all []trainer.Weights
	for _, w := range []trainer.Weights{trainer.Reference, trainer.Old, trainer.Average} {
		if asked[w] {
			all = append(all, w)
		}
	}
	if lag := trainer.Weights(e.Run.Lag); lag > 0 {
		for d := range lag + 1 {
			all = append(all, trainer.Lagged+d)
		}
	}
	return all
}

// Actor is whose samples are learned from.
func Actor(e *experiment.Experiment) trainer.Weights {
	if e.Run.Lag > 0 {
		return trainer.Lagged
	}
	return trainer.Current
}

// Average is which weights optim.ema makes. Old weights that follow at its pace are the average.
func Average(e *experiment.Experiment) trainer.Weights {
	if e.Kind().Has(loss.OldFollows) {
		return trainer.Old
	}
	return trainer.Average
}

// Pace is how a set of weights follows: at the pace of optim.ema, or at once.
func Pace(e *experiment.Experiment, w trainer.Weights) optim.Pace {
	if e.Optim.EMA > 0 && w == Average(e) {
		return e.Optim.Pace()
	}
	return optim.Pace{Shape: optim.Decay{Kind: "constant"}, Every: 1}
}

// Anchor is which weights loss.kl compares with; Current where it is the loss's own choice.
func Anchor(turn experiment.Turn) trainer.Weights {
	switch {
	case turn.Loss.KL.Reference == "teacher":
		return trainer.Teacher
	case turn.Loss.KL.Reference == "ema":
		return Average(turn.Experiment)
	case turn.Loss.KL.Reference == "old" && turn.Noised():
		return trainer.Old // of decisions it is known what they had
	}
	return trainer.Current
}
