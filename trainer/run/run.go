package run

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Options are a run's parameters from its caller.
type Options struct {
	Dir     string
	Resume  bool
	Restart bool // begin anew, and keep the run that is in the folder beside it
	Backend kernels.Backend
	// Further are more backends, each with a rank of its own beside Backend's; Wire is between all of
	// them, and nil is host memory (trainer/ranks).
	Further []kernels.Backend
	Wire    exchange.Wire
	// Fleet lets workers in once the folder is open; nil: all is computed here.
	Fleet func() (Fleets, error)
	Class string // of the backends' arithmetic, for workers and the content of Cache
	Cache string // a folder that runs share, for encoded prompts; "": none
	// Free is the number of unused bytes of the devices' memory, for [run] memory: before rewards are opened, and then.
	// 0, and without it: unknown.
	Free    func() int64
	Version string                           // of the program, for the manifest
	Logf    func(format string, args ...any) // a line for people
	Seconds float64                          // after which a run ends though more iterations were asked for; 0: never
	Twice   bool                             // whether rewards are asked twice in the first iteration, for the diagnosis
	// Rolling is called with the progress of an iteration's samples, in passes of the network, and the number of
	// finished iterations; nil: nothing is called.
	Rolling func(iteration, done, all int)
	// Measuring is called with how many held-out samples of an evaluation are made; nil: nothing is called.
	Measuring func(done, all int)
	// Part is called with every part of an iteration, and Job with every job of a worker, beside other calls.
	Part func(p Part)
	Job  func(e fleet.Entry)
	// Report is called with every finished iteration.
	Report func(line *ledger.Line, timing *ledger.TimingLine)
}

// say prints a line for people.
type say = func(format string, args ...any)

// loop is a run at work: it makes iterations of the parts below, and has the rest of a run's state. checkpoint.go
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
	device   sync.Mutex   // held by computations here while rewards are asked: a roll, its pictures, a network
	memory   memory
	host     *cpu.Backend // it moves states in the host's memory beside a device; nil: none do
	wire     string       // it carries gradients between ranks; "": there is one

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
	stage     experiment.Settings // of the first iteration since the stage under way began
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

// Run runs an experiment to its end, or until ctx is cancelled: then the iteration under way is finished and saved. If
// ctx ends as the model is opened, Run returns its error.
func Run(ctx context.Context, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	return runAs(ctx, ModalityOf(e), e, o)
}

// runAs is Run of a modality.
func runAs(ctx context.Context, m model.Modality, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	l, err := open(ctx, m, e, o)
	if err != nil {
		return nil, err
	}
	result, err := l.guarded(ctx)
	l.monitors.alerts.wait(l.Logf)
	return result, errors.Join(err, l.close(err))
}

// guarded is run with a device's failure as an error: checkpoints stay, and other experiments of the program can go
// on.
func (l *loop) guarded(ctx context.Context) (result *ledger.Result, err error) {
	defer func() {
		if lost := kernels.DeviceError(nil); errors.As(err, &lost) {
			result, err = nil, fmt.Errorf("%w\nhint: %s", err, l.remains())
		}
	}()
	defer kernels.Recover(&err)
	return l.run(ctx)
}

// remains says where a run goes on that a device's failure ended.
func (l *loop) remains() string {
	found, _, err := l.folder.Latest()
	if err != nil || found == nil {
		if worth, err := l.folder.Worth(); err == nil && worth {
			return "what was measured before the first iteration is saved, --resume goes on from there"
		}
		return "nothing was saved yet: the command without --resume begins again"
	}
	return fmt.Sprintf("iteration %d is saved, --resume goes on from there", found.Iteration)
}

// run is the whole run: measure, iterate, measure.
func (l *loop) run(ctx context.Context) (*ledger.Result, error) {
	switch done, err := l.filterPrompts(ctx); {
	case err != nil:
		return nil, err
	case !done: // and nothing to save: the measurement is in its file
		r := &ledger.Result{Status: ledger.Interrupted}
		return r, l.folder.WriteJSON(resultFile, r)
	}
	if l.evaluation.Before == nil {
		if err := l.measureStart(ctx); err != nil {
			return nil, err
		}
	}
	if why, err := l.stoppedBefore(); err != nil || why != "" {
		if err != nil {
			return nil, err
		}
		return l.end(ledger.Stopped, why)
	}
	if err := l.folder.WriteJSON(resultFile, l.result(ledger.UnderWay, "")); err != nil {
		return nil, err
	}
	for l.trainer.Iteration < l.Run.Iterations && !l.clock.over {
		if ctx.Err() != nil {
			return l.end(ledger.Interrupted, "")
		}
		stop, err := l.iterate()
		switch {
		case errors.Is(err, errWaited):
			return l.end(ledger.Interrupted, "")
		case err != nil:
			return nil, l.failed(err)
		}
		if stop != nil {
			return l.end(ledger.Stopped, stop.says)
		}
	}
	why := ""
	if l.trainer.Iteration < l.Run.Iterations {
		why = outOfTime
	}
	if err := l.rewards.nothingScored(l.trainer.Iteration); l.trainer.Updates == 0 && err != nil {
		_, failed := l.end(ledger.Finished, err.Error())
		return nil, errors.Join(err, failed)
	}
	return l.end(ledger.Finished, why)
}

// filterPrompts leaves the prompts that pass rates leave, which are measured where no file has them. It is not done
// where ctx was cancelled.
func (l *loop) filterPrompts(ctx context.Context) (done bool, err error) {
	f := l.Rollout.Filter
	if f == nil {
		return true, nil
	}
	path := f.Path
	if path == "" {
		path = l.folder.Path(passRatesFile)
		test := passTest{*f, l.Experiment, l.train, l.model, &l.rewards, l.folder, l.Logf}
		if err := test.measure(ctx, l.root()); err != nil || ctx.Err() != nil {
			return false, err
		}
	}
	if err := l.selection.filter(path, l.Logf); err != nil {
		return false, err
	}
	return true, nil
}

// measureStart measures the weights that training begins with, or, after a change of [evaluate], began with.
func (l *loop) measureStart(ctx context.Context) error {
	of, later := l.subject(), l.trainer.Iteration > 0
	if later {
		of.weights = trainer.Reference
	}
	if err := l.evaluation.measureStart(ctx, of); err != nil {
		return err
	}
	l.monitors.compareStart(l.evaluation.Before)
	if later {
		return l.save()
	}
	l.better()
	return l.keep()
}

// A [[stage]] changes the further run, and not the learned weights:
//
//	weights, reference          kept
//	rewards                     all are asked in every stage; which are trained on, and how they are
//	                            combined, is the stage's. Evaluations have the totals of the file
//	prompts                     those of a stage with other lists or shares are gone through from their
//	                            beginning; facts about a prompt, as a curriculum's successes, are kept
//	trained parameters          those that the stage's train names move; the others stay, with their averages
//	averages of gradients       kept, with the number of updates in them; betas, eps and weight
//	                            decay are the stage's
//	learning rate's schedule    begins anew: warm-up and decay count the stage's own updates
//	history of the estimator    kept where all of [advantage] stays as it was; otherwise it is
//	                            empty again
//	moving averages of weights  kept; the count of their pace is kept where the pace is, otherwise
//	                            it begins anew. Without a pace of its own an average follows at
//	                            once, so that a stage that begins one begins with its weights
//
// Invariant (test): a run that stopped at a boundary, or beside one, goes on with the same bytes.

// enterStage begins an iteration's stage, if it is another than the one under way.
func (l *loop) enterStage(settings experiment.Settings) {
	if settings.Number == l.stage.Number {
		return
	}
	before, history, memories := l.stage, l.estimator.History, l.trainer.Memories
	if !before.Rollout.SamePrompts(settings.Rollout) {
		l.selection.place = 0
	}
	l.startStage(settings)
	if reflect.DeepEqual(before.Advantage, settings.Advantage) {
		l.estimator.History = history
	}
	for i, m := range memories {
		old := m.Pace
		if old.T = 0; old == l.trainer.Memories[i].Pace {
			l.trainer.Memories[i].Pace.T = m.Pace.T
		}
	}
	l.trainer.Since = l.trainer.Updates
}

// resetStage is in a stage with empty states, for a checkpoint to fill.
func (l *loop) resetStage(stage int) error {
	first := 0
	for n := range min(stage, len(l.Stages)) {
		first += l.Stages[n].Iterations
	}
	settings, err := l.Iteration(first)
	if err == nil {
		l.startStage(settings)
	}
	return err
}

// startStage takes the stage's settings, with empty states.
func (l *loop) startStage(settings experiment.Settings) {
	l.stage, l.estimator = settings, settings.Estimator()
	all := make([]trainer.Memory, len(l.trainer.Memories))
	for i, m := range l.trainer.Memories {
		all[i] = trainer.Memory{Weights: m.Weights, Pace: model.Pace(settings.Experiment, m.Weights), EachUpdate: m.Weights == trainer.Average}
	}
	l.trainer.Memories, l.trainer.Since = all, 0
	l.model.Settle(settings.Optim, settings.Moves())
}
