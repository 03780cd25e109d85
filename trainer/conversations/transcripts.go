package conversations

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// What is kept of episodes: transcripts.jsonl, and pictures of some with the crops that were looked at.

// Files is model.Model's: a line an episode.
func (m *Model) Files() []string { return []string{ledger.TranscriptsFile} }

// Record appends an iteration's episodes.
func (m *Model) Record(to model.Outputs, line *ledger.Line, r *trainer.Report) (map[int]string, error) {
	kept := line.Iteration == 1 || line.HeldOut != nil
	for i, s := range r.Samples {
		e := EpisodeOf(s)
		l := ledger.TranscriptLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample,
			Text: m.train[s.Key.Prompt].Text, Said: e.Texts, Total: ledger.Number(r.Scores[i]), Advantage: ledger.Number(r.Advantages[i]), Given: e.Given, Episode: e.Transcript}
		for at, on := range e.Sampled {
			if on {
				l.Pieces = append(l.Pieces, m.Speaker.Tokens.Decode(e.Tokens[at:at+1]))
			}
		}
		if kept && i < mostKept {
			var err error
			if l.Picture, err = keepShown(to.Folder, e, fmt.Sprintf("images/episode_%06d_%02d.png", line.Iteration, i)); err != nil {
				return nil, err
			}
			if l.Saw, err = m.keepSaw(to.Folder, e, fmt.Sprintf("images/episode_%06d_%02d", line.Iteration, i)); err != nil {
				return nil, err
			}
		}
		if err := to.Lines[ledger.TranscriptsFile].Append(l); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// keepShown writes what an episode looked at, and returns the file's name; "" where there is no
// picture.
func keepShown(to *folder.Folder, e *Episode, name string) (string, error) {
	m := shown(e)
	if m == nil {
		return "", nil
	}
	var png bytes.Buffer
	return name, errors.Join(vision.EncodePNG(&png, m), to.Write(name, png.Bytes()))
}

// keepSaw writes an episode's pictures as the model saw them, after the processor made them smaller or larger, and
// returns the files' names: those of the question first, then what tools made.
func (m *Model) keepSaw(to *folder.Folder, e *Episode, stem string) (names []string, err error) {
	for i, picture := range e.Album.Pictures[:min(len(e.Album.Pictures), mostSeen)] {
		if picture.Image == nil { // its size alone is known
			break
		}
		seen, err := m.Speaker.Processor.Resize(picture.Image.Raster())
		if err != nil {
			return nil, fmt.Errorf("picture %d of an episode, to be kept: %w", i+1, err)
		}
		var png bytes.Buffer
		name := fmt.Sprintf("%s_saw_%02d.png", stem, i)
		if err := errors.Join(vision.EncodePNG(&png, seen), to.Write(name, png.Bytes())); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// mostSeen is how many pictures of an episode are kept as the model saw them.
const mostSeen = 12

// mostKept is how many of an iteration's pictures are kept, where any are.
const mostKept = 8

// shown is an episode for people: the question's picture, with the crops that were looked at; nil where
// it has no picture.
func shown(e *Episode) *vision.Image {
	if len(e.Album.Pictures) == 0 {
		return nil
	}
	m := e.Album.Pictures[0].Image.Clone()
	var marks []vision.Mark
	for _, c := range transcript(e).Crops {
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
