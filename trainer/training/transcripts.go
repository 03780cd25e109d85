package training

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// What is kept of episodes: transcripts.jsonl, and pictures of some with the crops that were looked at.

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
	Picture   string            `json:"picture,omitempty"` // the question's with crops, in the run's folder, where it was kept
	Total     *float64          `json:"total"`
	Advantage *float64          `json:"advantage,omitempty"`
	Episode   *tools.Transcript `json:"episode"`
}

// TranscriptsFile has a line an episode.
const TranscriptsFile = "transcripts.jsonl"

// recordEpisodes appends an iteration's episodes.
func (t *Training) recordEpisodes(r *trainer.Report, line *Line) error {
	if t.transcripts == nil {
		return nil
	}
	kept := line.Iteration == 1 || line.HeldOut != nil
	for i, s := range r.Samples {
		e := s.Item.Episode
		l := TranscriptLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample,
			Text: t.train[s.Key.Prompt].Text, Said: e.Texts, Total: number(r.Scores[i]), Advantage: number(r.Advantages[i]), Episode: e.Transcript}
		for at, on := range e.Sampled {
			if on {
				l.Pieces = append(l.Pieces, t.model.speaker.Tokens.Decode(e.Tokens[at:at+1]))
			}
		}
		if kept && i < mostKept {
			var err error
			if l.Picture, err = t.keepShown(s, fmt.Sprintf("images/episode_%06d_%02d.png", line.Iteration, i)); err != nil {
				return err
			}
		}
		if err := t.transcripts.Append(l); err != nil {
			return err
		}
	}
	return nil
}

// keepShown writes what an episode looked at, and returns the file's name; "" where there is no
// picture.
func (t *Training) keepShown(s trainer.Sample, name string) (string, error) {
	m := shown(s, rewards.Item{Transcript: transcript(s.Item.Episode)})
	if m == nil {
		return "", nil
	}
	var png bytes.Buffer
	return name, errors.Join(vision.EncodePNG(&png, m), t.folder.Write(name, png.Bytes()))
}

// mostKept is how many of an iteration's pictures are kept, where any are.
const mostKept = 8

// shown is a sample for people: its picture, or that of the question, with the crops that were
// looked at.
func shown(s trainer.Sample, item rewards.Item) *vision.Image {
	e := s.Item.Episode
	if e == nil || len(e.Album.Pictures) == 0 {
		return item.Image
	}
	m := e.Album.Pictures[0].Image.Clone()
	var marks []vision.Mark
	for _, c := range item.Transcript.Crops {
		if c.Picture == 0 {
			marks = append(marks, vision.Mark{X0: c.Box[0], Y0: c.Box[1], X1: c.Box[2], Y1: c.Box[3]})
		}
	}
	m.Draw(marks)
	if by := float64(max(m.Width, m.Height)) / shownSide; by > 1 {
		small, err := m.Resize(max(1, int(float64(m.Width)/by)), max(1, int(float64(m.Height)/by)), vision.Bicubic)
		if err == nil {
			return small
		}
	}
	return m
}

// shownSide is how many pixels a side a question's picture has on a sheet.
const shownSide = 192
