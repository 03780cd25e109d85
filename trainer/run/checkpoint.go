package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// A checkpoint is all that is not a function of the experiment: weights, optimiser and other
// weights in fp32, counters, and where the run's files ended.

const stateFile = "state.json"

// state is what a checkpoint knows beside tensors. The fields of the first part are the run's own all the
// time; those of the second are taken from where they live as a checkpoint is written.
type state struct {
	Iteration int                       `json:"iteration"`
	Updates   int                       `json:"updates"`
	Since     int                       `json:"since"`              // updates before this stage
	Stage     int                       `json:"stage"`              // whose states these are
	Failures  map[string]int            `json:"failures,omitempty"` // iterations in a row, by the reward that failed
	Skips     int                       `json:"skips,omitempty"`    // iterations in a row without an update, since numbers were not finite
	Anchor    int                       `json:"anchor"`             // the iteration that a rollback goes back to
	Best      map[string]best           `json:"best,omitempty"`     // or may go back to, by what is held out
	Paces     []int                     `json:"paces"`              // steps of every memory
	Reference bool                      `json:"reference"`          // whether the reference was ever reset
	History   *advantage.History        `json:"history,omitempty"`
	Before    map[string]ledger.Measure `json:"before,omitempty"` // held-out measures; nil: not measured yet
	Guided    map[string]ledger.Measure `json:"guided,omitempty"` // those of the start under guidance
	Latest    map[string]ledger.Measure `json:"latest,omitempty"`
	Measured  int                       `json:"measured,omitempty"` // the iteration of Latest
	// MeasuredWith is what these were measured with, and Measuring how often that has changed.
	MeasuredWith map[string]string `json:"measured_with,omitempty"`
	Measuring    int               `json:"measuring,omitempty"`
	watched
	Bins *ledger.Bins      `json:"bins,omitempty"` // of the totals' histogram
	Ends map[string]int64  `json:"ends"`           // of the files that are appended to
	Sums map[string]string `json:"sums,omitempty"` // of what stands before those ends
	again
	Choice *choiceState `json:"choice,omitempty"`

	Guidance *prompts.Guidance `json:"guidance,omitempty"` // how much of solutions is given ([episode.guided])
}

// newState is that of a run that has not begun.
func newState() state {
	return state{}
}

// snapshot is the state as a checkpoint holds it, and the tensors of samples that are kept.
func (t *training) snapshot() (state, []safetensors.Tensor, error) {
	s, l := t.state, t.loop
	s.Iteration, s.Updates, s.Since, s.Stage, s.History = l.Iteration, l.Updates, l.Since, t.stage.Number, t.estimator.History
	s.Reference = t.model.Keeps(trainer.Reference)
	s.Paces, s.watched, s.Best, s.Failures = nil, t.monitors.watched, t.monitors.best, t.rewards.failures
	for _, m := range l.Memories {
		s.Paces = append(s.Paces, m.Pace.T)
	}
	var kept []safetensors.Tensor
	var err error
	if s.Choice, kept, err = t.choice.state(t.speaking()); err != nil {
		return s, nil, err
	}
	s.Ends, s.Sums = map[string]int64{}, map[string]string{}
	for name, lines := range t.files.lines() {
		mark, err := lines.End()
		if err != nil {
			return s, nil, fmt.Errorf("saving %s: %w", name, err)
		}
		s.Ends[name], s.Sums[name] = mark.End, mark.SHA256
	}
	return s, kept, nil
}

// speaking is the model that turns its samples into texts; nil: it makes none.
func (t *training) speaking() model.Speaking {
	m := t.own()
	if ranks, ok := m.(interface{ First() model.Model }); ok {
		m = ranks.First()
	}
	s, _ := m.(model.Speaking)
	return s
}

// save writes a checkpoint of what is finished.
func (t *training) save() error {
	if err := t.keepChoices(); err != nil {
		return err
	}
	tensors, err := t.model.Tensors()
	if err != nil {
		return err
	}
	s, kept, err := t.snapshot()
	if err != nil {
		return err
	}
	t.files.newest = s.Iteration
	return t.files.folder.Save(s.Iteration, t.keeping(), func(dir string) error {
		if err := safetensors.Write(filepath.Join(dir, model.TensorsFile), append(tensors, kept...), nil); err != nil {
			return err
		}
		if err := t.writeAdapters(dir); err != nil {
			return err
		}
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o644)
	})
}

// writeAdapters writes what is trained, and its moving average beside.
func (t *training) writeAdapters(dir string) error {
	if err := t.model.WriteAdapter(trainer.Current, dir); err != nil || t.stage.Optim.EMA == 0 {
		return err
	}
	return t.model.WriteAdapter(model.Average(t.stage.Experiment), filepath.Join(dir, model.EMA))
}

// keep writes a checkpoint that rollbacks go back to.
func (t *training) keep() error {
	t.state.Anchor = t.loop.Iteration
	return t.save()
}

// keeping says which checkpoints stay. One that an interruption or a failure left between two regular ones goes when
// the run has come further, so that a run that was stopped leaves what one leaves that never was.
func (t *training) keeping() folder.Keeping {
	return folder.Keeping{Last: t.Checkpoint.Keep, Held: t.monitors.targets(t.state.Anchor), Passing: func(c folder.Checkpoint) bool {
		text, err := os.ReadFile(filepath.Join(c.Dir, stateFile))
		var s struct {
			Iteration int `json:"iteration"`
			Anchor    int `json:"anchor"`
		}
		return err == nil && json.Unmarshal(text, &s) == nil && s.Anchor != s.Iteration
	}}
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// readState reads what a checkpoint knows beside tensors.
func (t *training) readState(c folder.Checkpoint) (s state, err error) {
	path := filepath.Join(c.Dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Iteration != c.Iteration || len(s.Paces) != len(t.loop.Memories) {
		return s, fmt.Errorf("%s: it is of iteration %d with %d averages, not %d with %d", path, s.Iteration, len(s.Paces), c.Iteration, len(t.loop.Memories))
	}
	s.Before = orEmpty(s.Before) // not nil: whoever saved had measured, though nothing may be held out
	s.First, s.Streaks, s.Failures, s.Best = orEmpty(s.First), orEmpty(s.Streaks), orEmpty(s.Failures), orEmpty(s.Best)
	return s, nil
}

// load goes back to a checkpoint, and returns where the run's files ended then.
func (t *training) load(c folder.Checkpoint) (ends map[string]folder.Mark, err error) {
	s, err := t.readState(c)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(filepath.Join(c.Dir, model.TensorsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := t.settle(s.Stage); err != nil { // what follows is that stage's
		return nil, err
	}
	if s.Reference {
		t.model.Params().Follow(trainer.Reference, 0) // so that there is one
	} else if err := t.model.Forget(trainer.Reference); err != nil {
		return nil, err
	}
	if err := t.model.Load(f); err != nil {
		return nil, err
	}
	t.loop.Iteration, t.loop.Updates, t.loop.Since = s.Iteration, s.Updates, s.Since
	for i := range s.Paces {
		t.loop.Memories[i].Pace.T = s.Paces[i]
	}
	if (s.History != nil) != (t.estimator.History != nil) {
		return nil, errors.New("the estimator's history does not fit this experiment")
	}
	if s.History != nil {
		*t.estimator.History = *s.History
	}
	if err := t.choice.load(s.Choice, f, t.speaking()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err)
	}
	t.state, t.files.newest = s, s.Iteration
	t.monitors.watched, t.monitors.best, t.rewards.failures = s.watched, s.Best, s.Failures
	ends = map[string]folder.Mark{}
	for name, end := range s.Ends {
		ends[name] = folder.Mark{End: end, SHA256: s.Sums[name]}
	}
	return ends, nil
}
