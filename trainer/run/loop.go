package run

import (
	"context"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// loop is a run at work: it makes iterations of the parts below, and has what is left of a run's state. checkpoint.go
// says which fields a checkpoint holds.
type loop struct {
	*experiment.Experiment
	Options
	ctx            context.Context // of the run: waiting ends with it
	train, heldOut []prompts.Prompt
	folder         *folder.Folder

	modality model.Modality
	model    model.Model
	fleet    *fleet.Fleet // nil: there are no workers
	device   sync.Mutex   // held by what computes here while rewards are asked: a roll, its pictures, a network
	memory   memory
	wire     string // it carries gradients between ranks; "": there is one

	inputs      inputs
	rewards     rewardSet
	selection   selection
	evaluation  evaluation
	monitors    monitors
	checkpoints checkpoints
	record      record
	clock       clock

	trainer   *trainer.Trainer
	estimator advantage.Estimator
	stage     experiment.Turn // the first turn since the stage under way began
	attempt   attempt
	skips     int       // iterations in a row without an update, since numbers were not finite
	current   iteration // the last that began: the model asks for its rewards and prompts during rolls
	progress  progress  // of the roll
}

// root is the key of everything that is drawn in this attempt.
func (l *loop) root() rng.Key { return l.attempt.root(l.Run.Seed) }

// subject is the weights that [evaluate] names, as they are now.
func (l *loop) subject() subject {
	weights := trainer.Current
	if at := l.stage.Experiment; at.Evaluate.Weights == "ema" && at.Optim.EMA > 0 {
		weights = model.Average(at)
	}
	return subject{weights, l.trainer.Iteration, l.attempt.Attempt}
}

// last reports whether an iteration, counted from 1, is the run's last one.
func (l *loop) last(iteration int) bool { return l.clock.over || iteration == l.Run.Iterations }
