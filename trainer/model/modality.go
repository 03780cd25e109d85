package model

import (
	"context"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Modality is a kind of model: how one is opened, and what can be said before.
type Modality struct {
	Name    string
	Samples string // what people call its samples
	Sampled bool   // whether 'darkroom sample' makes such samples
	Looks   bool   // whether it looks at pictures that prompts name
	// Inspect refuses what of the model's folder does not fit the experiment.
	Inspect func(f *Folder)
	// Prompts reads what an experiment trains on.
	Prompts func(e *experiment.Experiment) ([]prompts.Prompt, error)
	// Ready tries what the model needs of the machine, before anything is opened that takes long, and
	// returns a sentence for people; "": there is nothing to say.
	Ready func(ctx context.Context, e *experiment.Experiment) (news string, err error)
	// Networks opens the parameters of the networks that are trained, as a run opens them, and says how they are let go.
	Networks func(dir string, m experiment.Model, pool *tensor.Pool) ([]Network, func() error, error)
	// Open opens the model on one device.
	Open func(e *experiment.Experiment, o Options) (Model, error)
	// Possible reports a turn that this version cannot train.
	Possible func(turn experiment.Turn) error
	// Memory predicts what a run takes, on an empty backend that counts, and how it keeps to a budget of bytes; 0:
	// there is none.
	Memory func(e *experiment.Experiment, dry Dry, budget int64) (*Memory, error)
}

// Options are what a model needs of its run.
type Options struct {
	Backend kernels.Backend
	Train   []prompts.Prompt // keys name them by their place, those held out behind
	HeldOut []prompts.Prompt
	Rewards Rewards
	Fit
	// Cache is a folder for what is computed of prompts, which runs may share; "": it is kept in memory alone.
	Cache string
	// Arithmetic names that of the device: two devices of one compute the same bits, and share what Cache holds.
	Arithmetic string
	// Ahead are the numbers of prompts that this iteration and the next ones will probably ask for; nil: nobody knows.
	Ahead func() []int
	// Context stops rolls; nil: nothing does.
	Context context.Context
	// Progress hears how much of a roll is done; nil: nobody asks.
	Progress func(done, all int)
}

// Len is how many prompts there are.
func (o Options) Len() int { return len(o.Train) + len(o.HeldOut) }

// Prompt is the one of a key's number.
func (o Options) Prompt(n int) prompts.Prompt {
	if n < len(o.Train) {
		return o.Train[n]
	}
	return o.HeldOut[n-len(o.Train)]
}

// Rewards is what a model may ask of the run's rewards.
type Rewards interface {
	// Totals are the totals of samples, as those of an iteration are made.
	Totals(samples []trainer.Sample) ([]float64, error)
	// Slopes are the trained rewards' sum over pictures, one a way, and its gradient at their numbers.
	Slopes(ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error)
}

// Network is the parameters of one; Number is 0, or 1 of a second that takes turns with the first.
type Network struct {
	*nn.Params
	Number int
}
