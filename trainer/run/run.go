package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

type say = func(format string, args ...any) // a line for people

// Options are what a run needs of its caller.
type Options struct {
	Dir     string
	Resume  bool
	Restart bool // begin anew, and keep the run that is in the folder beside it
	Backend kernels.Backend
	// Further are more backends, each with a rank of its own beside Backend's; Wire is between all of
	// them, and nil is host memory (ranks.go).
	Further []kernels.Backend
	Wire    exchange.Wire
	// Fleet lets workers in once the folder is open; nil: all is done here.
	Fleet func() (Helpers, error)
	Class string // of the backends' arithmetic, for workers and what Cache holds
	Cache string // a folder that runs share, for what is computed of prompts; "": none
	// Free is how many bytes of the devices' memory nobody uses, for [run] memory: before rewards are opened, and then.
	// 0, and without it: unknown.
	Free    func() int64
	Version string                           // of the program, for the manifest
	Say     func(format string, args ...any) // a line for people
	Seconds float64                          // after which a run ends though more iterations were asked for; 0: never
	Twice   bool                             // whether rewards are asked twice in the first iteration, for the diagnosis
	// Rolling hears how much of an iteration's samples is made, in passes of the network; so many
	// iterations are finished.
	Rolling func(iteration, done, all int)
	// Part hears of every part of an iteration, and Job who did which job, beside other calls; nil: nobody asks.
	Part func(p Part)
	Job  func(e fleet.Entry)
	// Report hears of every finished iteration.
	Report func(line *ledger.Line, timing *ledger.TimingLine)
}

// training is an experiment at work. What a checkpoint holds of it is in state, in the model, and in the
// loop's counters; choice_state.go says what of choice.
type training struct {
	*experiment.Experiment
	Options
	ctx            context.Context // of the run: waiting ends with it
	train, heldOut []prompts.Prompt
	evaluated      *trainer.Weights // by which held-out samples are made; nil: those that [evaluate] names
	heldAtOnce     int64            // bytes of held-out samples that are in memory at once

	modality model.Modality
	model    model.Model
	fleet    *fleet.Fleet // nil: there are no workers
	before   int64        // bytes that were free before rewards were opened
	device   sync.Mutex   // held by what computes here while rewards are asked: a roll, its pictures, a network
	wire     string       // what carries gradients between ranks; "": there is one
	loop     *trainer.Trainer
	rewards  rewardSet
	files    files

	stage     experiment.Turn // the first turn since the stage under way began
	estimator advantage.Estimator
	choice    choice
	state     state
	now       iteration
	clock     clock
	monitors  monitors
}

// iteration is what is known of the iteration under way.
type iteration struct {
	turn     experiment.Turn
	undo     func()        // goes back to where it began, so that a checkpoint can be written
	check    *ledger.Check // before its samples are learned from
	odd      error         // which numbers were not finite; nil: all were
	last     string        // why it is to be the last; "": it is not
	unscored string        // why too few samples have a score; "": enough have
	scored   *scores       // what rewards said in it
	controls controlled    // those of its groups
	twice    *float64      // the deviation of a total, where they were asked again; nil: not
	asking   *requests     // what rewards outside were asked while it was rolled; nil: nothing
	rolled   rolled        // how far its roll is
	seconds  map[string]float64
	busy     time.Time // when the last part of it ended
}

// Run runs an experiment to its end, or until ctx is cancelled: then the iteration under way is
// finished and saved.
func Run(ctx context.Context, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	return runAs(ctx, ModalityOf(e), e, o)
}

// runAs is Run of a modality.
func runAs(ctx context.Context, m model.Modality, e *experiment.Experiment, o Options) (*ledger.Result, error) {
	t, err := open(ctx, m, e, o)
	if err != nil {
		return nil, err
	}
	result, err := t.guarded(ctx)
	t.monitors.alerts.wait(t.Say)
	return result, errors.Join(err, t.close(err))
}

// guarded is run, where a device's failure is an error as any other: what was saved stands, and whoever
// runs other experiments can go on.
func (t *training) guarded(ctx context.Context) (result *ledger.Result, err error) {
	defer func() {
		if lost := kernels.DeviceError(nil); errors.As(err, &lost) {
			result, err = nil, fmt.Errorf("%w\nhint: %s", err, t.remains())
		}
	}()
	defer kernels.Recover(&err)
	return t.run(ctx)
}

// remains says where a run goes on that a device's failure ended.
func (t *training) remains() string {
	found, _, err := t.files.folder.Latest()
	if err != nil || found == nil {
		if worth, err := t.files.folder.Worth(); err == nil && worth {
			return "what was measured before the first iteration is saved, --resume goes on from there"
		}
		return "nothing was saved yet: the command without --resume begins again"
	}
	return fmt.Sprintf("iteration %d is saved, --resume goes on from there", found.Iteration)
}

// run is the whole run: measure, iterate, measure.
func (t *training) run(ctx context.Context) (*ledger.Result, error) {
	switch done, err := t.filterPrompts(ctx); {
	case err != nil:
		return nil, err
	case !done: // and nothing to save: what was measured is in its file
		r := &ledger.Result{Status: ledger.Interrupted}
		return r, t.files.folder.WriteJSON(resultFile, r)
	}
	if t.state.Before == nil {
		if err := t.measureStart(ctx); err != nil {
			return nil, err
		}
	}
	if why, err := t.stoppedBefore(); err != nil || why != "" {
		if err != nil {
			return nil, err
		}
		return t.end(ledger.Stopped, why)
	}
	if err := t.files.folder.WriteJSON(resultFile, t.result(ledger.UnderWay, "")); err != nil {
		return nil, err
	}
	for t.loop.Iteration < t.Run.Iterations && !t.clock.over {
		if ctx.Err() != nil {
			return t.end(ledger.Interrupted, "")
		}
		stop, err := t.iterate()
		switch {
		case errors.Is(err, errWaited):
			return t.end(ledger.Interrupted, "")
		case err != nil:
			return nil, t.failed(err)
		}
		if stop != nil {
			return t.end(ledger.Stopped, stop.says)
		}
	}
	why := ""
	if t.loop.Iteration < t.Run.Iterations {
		why = outOfTime
	}
	if err := t.rewards.nothingScored(t.loop.Iteration); t.loop.Updates == 0 && err != nil {
		_, failed := t.end(ledger.Finished, err.Error())
		return nil, errors.Join(err, failed)
	}
	return t.end(ledger.Finished, why)
}
