package ledger

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// TimingLine is a line of timing.jsonl.
type TimingLine struct {
	Iteration int                `json:"iteration"`
	Attempt   int                `json:"attempt,omitempty"` // rollbacks before it
	At        float64            `json:"at,omitempty"`      // when it was finished: seconds since 1970
	Seconds   map[string]float64 `json:"seconds"`           // by part
}

// Work is the time of an iteration without its evaluation.
func Work(seconds map[string]float64) float64 { return seconds["all"] - seconds["evaluate"] }

// Spent is the work of a run up to an iteration, in the attempt after that many rollbacks: the work of abandoned
// attempts counts. Of an iteration that a killed process made, and another made again, the last counts.
func Spent(path string, iteration, attempt int) (seconds float64, err error) {
	all := map[[2]int]float64{}
	err = eachTiming(path, func(l TimingLine) {
		if l.Attempt < attempt || l.Attempt == attempt && l.Iteration <= iteration {
			at := [2]int{l.Attempt, l.Iteration}
			seconds += Work(l.Seconds) - all[at]
			all[at] = Work(l.Seconds)
		}
	})
	return seconds, err
}

// ReadTiming is the seconds of each iteration, by part; of one that ran twice, the last time. A
// folder without the file has none, and a line that cannot be read is left out: no number of the run
// depends on it.
func ReadTiming(path string) (map[int]map[string]float64, error) {
	all := map[int]map[string]float64{}
	err := eachTiming(path, func(l TimingLine) { all[l.Iteration] = l.Seconds })
	return all, err
}

// eachTiming calls f for every line that can be read.
func eachTiming(path string, f func(l TimingLine)) error {
	err := folder.ReadLines(path, func(text []byte) error {
		var l TimingLine
		if json.Unmarshal(text, &l) == nil && l.Seconds != nil {
			f(l)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
