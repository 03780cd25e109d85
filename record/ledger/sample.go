package ledger

import (
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
)

// SampleLine is a line of samples.jsonl.
type SampleLine struct {
	Iteration int                  `json:"iteration"`
	Attempt   int                  `json:"attempt,omitempty"`
	Prompt    int                  `json:"prompt"`
	Sample    int                  `json:"sample"`
	Text      string               `json:"text"`
	Total     *float64             `json:"total"` // null: missing
	Advantage *float64             `json:"advantage"`
	Scores    map[string]ScoreLine `json:"scores"`
	Size      []int                `json:"size,omitempty"`     // of a picture, where not all have one
	Picture   string               `json:"picture,omitempty"`  // where it was kept
	Sources   []string             `json:"sources,omitempty"`  // and its sources
	Rollback  *Rollback            `json:"rollback,omitempty"` // of a line without a sample
}

// Number is nil without a number: JSON has no NaN.
func Number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// ScoreLine is a reward's score of a sample.
type ScoreLine struct {
	Value    *float64           `json:"value"`
	Missing  string             `json:"missing,omitempty"`
	Parts    map[string]float64 `json:"parts,omitempty"`
	Evidence []rewards.Evidence `json:"evidence,omitempty"`
}
