package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Run runs an experiment to its end, or until ctx is cancelled: then the iteration under way is
// finished and saved.
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
	l.monitors.alerts.wait(l.Say)
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
	case !done: // and nothing to save: what was measured is in its file
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
		test := passTest{*f, l.Experiment, l.train, l.model, &l.rewards, l.folder, l.Say}
		if err := test.measure(ctx, l.root()); err != nil || ctx.Err() != nil {
			return false, err
		}
	}
	if err := l.selection.filter(path, l.Say); err != nil {
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
