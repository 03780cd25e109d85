package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// How a run ended. A monitor's stop is in the checkpoint that it leaves, too: a process that is killed
// before result.json says so does not go on past it.

const resultFile = "result.json"

// end writes result.json.
func (t *training) end(status, why string) (*ledger.Result, error) {
	r := t.result(status, why)
	if len(t.state.Guided) > 0 && t.Evaluate.Guided > 0 { // a run that is resumed may measure it no longer
		if err := t.guidedEnd(r); err != nil {
			return nil, err
		}
	}
	if status == ledger.Interrupted && t.files.newest != t.loop.Iteration {
		if err := t.save(); err != nil {
			return nil, err
		}
	}
	return r, t.files.folder.WriteJSON(resultFile, r)
}

// result is what is known of the run now.
func (t *training) result(status, why string) *ledger.Result {
	r := &ledger.Result{Status: status, Why: why, Iterations: t.loop.Iteration, HeldOut: map[string]ledger.Gain{}, Rewards: map[string]string{}}
	for name, m := range t.state.Before {
		r.HeldOut[name] = ledger.Gain{Before: &m}
	}
	if t.state.Measured > 0 { // else the latest is the one before
		for name, m := range t.state.Latest {
			r.HeldOut[name] = ledger.Gain{Before: r.HeldOut[name].Before, After: &m, Iteration: t.state.Measured}
		}
	}
	for k, j := range t.rewards.all {
		r.Rewards[j.name] = "gold"
		for _, at := range t.Turns() {
			if at.Rewards[k].Train {
				r.Rewards[j.name] = "trained"
			}
		}
	}
	return r
}

// stop saves a run that a monitor stops.
func (t *training) stop(f *fired) (*fired, error) {
	t.monitors.Stopped = f.says
	return f, t.save()
}

// stoppedBefore is why the run was stopped where its checkpoint stands, if nobody was told. Who goes on with
// a run after being told goes on past it.
func (t *training) stoppedBefore() (why string, err error) {
	why, t.monitors.Stopped = t.monitors.Stopped, ""
	if why == "" {
		return "", nil
	}
	path := t.files.folder.Path(resultFile)
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
	if r.Status == ledger.Stopped && r.Iterations == t.loop.Iteration {
		return "", nil
	}
	return why, nil
}

// failed saves a run that a reward stopped.
func (t *training) failed(err error) error {
	var f failure
	if !errors.As(err, &f) {
		return err
	}
	clear(t.rewards.failures) // a resumed run counts anew
	t.state.Skips = 0
	if saved := t.save(); saved != nil {
		return errors.Join(err, saved)
	}
	return fmt.Errorf("%w\nhint: iteration %d is saved, --resume goes on from there", err, t.loop.Iteration)
}
