package ledger

import "github.com/darkroom-rl/darkroom/vision/tools"

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
