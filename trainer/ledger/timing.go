package ledger

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// TimingLine is a line of timing.jsonl.
type TimingLine struct {
	Iteration int                `json:"iteration"`
	Attempt   int                `json:"attempt,omitempty"` // rollbacks before it
	At        float64            `json:"at,omitempty"`      // when it was finished: seconds since 1970
	Seconds   map[string]float64 `json:"seconds"`           // by part
}

// Work is what an iteration took without its evaluation.
func Work(seconds map[string]float64) float64 { return seconds["all"] - seconds["evaluate"] }

// ReadTiming is the seconds of each iteration, by part; of one that ran twice, the last time. A
// folder without the file has none, and a line that cannot be read is left out: no number of the run
// depends on it.
func ReadTiming(path string) (map[int]map[string]float64, error) {
	all := map[int]map[string]float64{}
	err := folder.ReadLines(path, func(text []byte) error {
		var l TimingLine
		if json.Unmarshal(text, &l) == nil && l.Seconds != nil {
			all[l.Iteration] = l.Seconds
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}
