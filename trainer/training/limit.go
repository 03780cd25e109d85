package training

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// A run may be given seconds in place of iterations: so methods are compared after equal times.
// Evaluations do not count. It ends after the iteration in which its time is up, as after the last
// one of its file: with an evaluation, and a checkpoint.

// outOfTime is a result's reason.
const outOfTime = "its time was up"

// last reports whether an iteration, counted from 1, is the run's last one.
func (t *Training) last(iteration int) bool { return t.over || iteration == t.Run.Iterations }

// spend adds an iteration's seconds.
func (t *Training) spend(seconds float64) {
	t.spent += seconds
	t.over = t.Seconds > 0 && t.spent >= t.Seconds
}

// spentBefore are the seconds of the iterations that a checkpoint has.
func (t *Training) spentBefore() error {
	all, err := ReadTiming(t.folder.Path("timing.jsonl"))
	t.spent = 0
	for i, seconds := range all {
		if i <= t.loop.Iteration {
			t.spent += Work(seconds)
		}
	}
	t.spend(0)
	return err
}

// Work is what an iteration took without its evaluation.
func Work(seconds map[string]float64) float64 { return seconds["all"] - seconds["evaluate"] }

// ReadTiming is the seconds of each iteration, by part; of one that ran twice, the last time. A
// folder without the file has none.
func ReadTiming(path string) (map[int]map[string]float64, error) {
	all := map[int]map[string]float64{}
	err := folder.ReadLines(path, func(text []byte) error {
		var l TimingLine
		err := json.Unmarshal(text, &l)
		all[l.Iteration] = l.Seconds
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// Possible reports what of an experiment cannot be trained with yet.
func Possible(e *experiment.Experiment) error {
	t := &Training{Experiment: e}
	first := 0
	for _, s := range e.Stages {
		if err := t.possible(first); err != nil {
			return err
		}
		first += s.Iterations
	}
	return t.possible(first)
}
