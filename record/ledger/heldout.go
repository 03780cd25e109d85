package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// HeldOutFile has a line a held-out sample of every evaluation.
const HeldOutFile = "heldout.jsonl"

// HeldOutLine is a line of heldout.jsonl. Two runs are compared prompt by prompt with it: the
// ledger has means over prompts alone.
type HeldOutLine struct {
	Iteration int                  `json:"iteration"` // 0: before the first
	Attempt   int                  `json:"attempt,omitempty"`
	Measuring int                  `json:"measuring,omitempty"` // of a line before it that is lower, nothing can be compared
	Prompt    int                  `json:"prompt"`              // counted from 0 among those held out
	Sample    int                  `json:"sample"`
	Text      string               `json:"text"`
	Total     *float64             `json:"total"` // null: missing
	Scores    map[string]ScoreLine `json:"scores"`
	At        *[4]int              `json:"at,omitempty"` // left, top, width, height on the evaluation's sheet of pictures; nil: not there
}

// Number is a reward's value, or the total; nil where it is missing.
func (l *HeldOutLine) Number(name string) *float64 {
	if name == "total" {
		return l.Total
	}
	return l.Scores[name].Value
}

// ReadHeldOutOf reads the samples of few evaluations alone: lines of others are skipped without being read.
func ReadHeldOutOf(path string, iterations ...int) (map[int][]HeldOutLine, error) {
	return readHeldOut(path, func(text []byte) bool {
		number, ok := bytes.CutPrefix(text, []byte(`{"iteration":`))
		end := bytes.IndexByte(number, ',')
		if !ok || end < 0 {
			return true // it is written otherwise
		}
		n, err := strconv.Atoi(string(number[:end]))
		return err != nil || slices.Contains(iterations, n)
	})
}

// ReadHeldOut reads the samples of each evaluation, by its iteration; of one that a rollback repeated,
// or that was measured anew, the last one's. A folder without the file has none.
func ReadHeldOut(path string) (map[int][]HeldOutLine, error) {
	return readHeldOut(path, func([]byte) bool { return true })
}

func readHeldOut(path string, wanted func(line []byte) bool) (map[int][]HeldOutLine, error) {
	all := map[int][]HeldOutLine{}
	err := folder.ReadLines(path, func(text []byte) error {
		if !wanted(text) {
			return nil
		}
		var l HeldOutLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		had := all[l.Iteration]
		if len(had) > 0 && (had[0].Attempt < l.Attempt || had[0].Measuring < l.Measuring) {
			had = nil
		}
		all[l.Iteration] = append(had, l)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}
