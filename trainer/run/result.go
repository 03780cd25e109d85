package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// How a run ended. A monitor's stop is in the checkpoint that it leaves, too: a process that is killed
// before result.json says so does not go on past it.

const resultFile = "result.json"

// end writes result.json.
func (l *loop) end(status, why string) (*ledger.Result, error) {
	r := l.result(status, why)
	if len(l.evaluation.Guided) > 0 && l.Evaluate.Guided > 0 { // a run that is resumed may measure it no longer
		if err := l.evaluation.guidedEnd(l.subject(), r); err != nil {
			return nil, err
		}
	}
	if status == ledger.Interrupted && l.checkpoints.newest != l.trainer.Iteration {
		if err := l.save(); err != nil {
			return nil, err
		}
	}
	return r, l.folder.WriteJSON(resultFile, r)
}

// result is what is known of the run now.
func (l *loop) result(status, why string) *ledger.Result {
	r := &ledger.Result{Status: status, Why: why, Iterations: l.trainer.Iteration, HeldOut: map[string]ledger.Gain{}, Rewards: map[string]string{}}
	for name, m := range l.evaluation.Before {
		r.HeldOut[name] = ledger.Gain{Before: &m}
	}
	if l.evaluation.Measured > 0 { // else the latest is the one before
		for name, m := range l.evaluation.Latest {
			r.HeldOut[name] = ledger.Gain{Before: r.HeldOut[name].Before, After: &m, Iteration: l.evaluation.Measured}
		}
	}
	for k, j := range l.rewards.all {
		r.Rewards[j.name] = "gold"
		for _, at := range l.Turns() {
			if at.Rewards[k].Train {
				r.Rewards[j.name] = "trained"
			}
		}
	}
	return r
}

// stop saves a run that a monitor stops.
func (l *loop) stop(f *fired) (*fired, error) {
	l.monitors.Stopped = f.says
	return f, l.save()
}

// stoppedBefore is why a monitor stopped the run at its checkpoint, where result.json does not say so. A run whose
// result says so goes on past it.
func (l *loop) stoppedBefore() (why string, err error) {
	why, l.monitors.Stopped = l.monitors.Stopped, ""
	if why == "" {
		return "", nil
	}
	path := l.folder.Path(resultFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return why, nil
	}
	if err != nil {
		return "", err
	}
	var r ledger.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("%s: %w\nhint: delete it; it is written anew", path, err)
	}
	if r.Status == ledger.Stopped && r.Iterations == l.trainer.Iteration {
		return "", nil
	}
	return why, nil
}

// failed saves a run that a reward stopped.
func (l *loop) failed(err error) error {
	var f failure
	if !errors.As(err, &f) {
		return err
	}
	clear(l.rewards.failures) // a resumed run counts anew
	l.skips = 0
	if saved := l.save(); saved != nil {
		return errors.Join(err, saved)
	}
	return fmt.Errorf("%w\nhint: iteration %d is saved, --resume goes on from there", err, l.trainer.Iteration)
}
