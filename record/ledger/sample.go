package ledger

import (
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/tools"
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

// TranscriptLine is a line of transcripts.jsonl: an episode with every token.
type TranscriptLine struct {
	Iteration int               `json:"iteration"` // 0: an evaluation before the first
	Attempt   int               `json:"attempt,omitempty"`
	HeldOut   bool              `json:"heldout,omitempty"`
	Prompt    int               `json:"prompt"`
	Sample    int               `json:"sample"`
	Text      string            `json:"text"`
	Said      []string          `json:"said"`              // the model, a turn each
	Pieces    []string          `json:"pieces"`            // the same, a token each
	Given     int               `json:"given,omitempty"`   // how many of the first were not drawn ([episode.guided], [episode.tree])
	Picture   string            `json:"picture,omitempty"` // the question's with crops, in the run's folder, where it was kept
	Saw       []string          `json:"saw,omitempty"`     // the episode's pictures as the model saw them, where they were kept
	Total     *float64          `json:"total"`
	Advantage *float64          `json:"advantage,omitempty"`
	Episode   *tools.Transcript `json:"episode"`
}

// TranscriptsFile has a line an episode.
const TranscriptsFile = "transcripts.jsonl"
