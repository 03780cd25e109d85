package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Conversations of a language model: those of the first iteration and of the last whose
// pictures were kept, with the crops on the picture. A word is as blue as its episode's
// advantage is above 0 and as red as it is below, and the paler, the surer the model was of it:
// the most changed words are the most visible.

// mostTalks is how many conversations an iteration shows.
const mostTalks = 8

// A Talk is a conversation.
type Talk struct {
	Iteration int        `json:"iteration"`
	Prompt    int        `json:"prompt"`
	Sample    int        `json:"sample"`
	Total     *float64   `json:"total"`
	Advantage *float64   `json:"advantage"`
	Prompted  string     `json:"ask"`
	Picture   string     `json:"picture,omitempty"` // the question's, with the crops that were looked at
	Given     []Seen     `json:"given,omitempty"`   // the question's pictures as the model saw them
	Turns     []TalkTurn `json:"turns"`
	End       string     `json:"end"`
}

// A TalkTurn is the model's message, and the results of its calls.
type TalkTurn struct {
	Words []Word   `json:"words"`
	Calls []string `json:"calls,omitempty"`
	Saw   []Seen   `json:"saw,omitempty"`
}

// Seen is a picture at the size at which the model saw it.
type Seen struct {
	Source string `json:"source"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	From   string `json:"from,omitempty"` // its size before the processor changed it
}

// A Word is a token: its text, and how probable it was.
type Word struct {
	Text string  `json:"t"`
	P    float64 `json:"p"`
}

// talks are the conversations to show; none where the run has none.
func talks(dir string, source Source) ([]Talk, error) {
	var kept []ledger.TranscriptLine
	last := 0
	err := folder.ReadLines(filepath.Join(dir, ledger.TranscriptsFile), func(text []byte) error {
		if !bytes.Contains(text, []byte(`"picture":`)) { // most lines, which are long
			return nil
		}
		var l ledger.TranscriptLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Picture == "" {
			return nil
		}
		if last = max(last, l.Iteration); l.Iteration > 1 && len(kept) > 0 && kept[len(kept)-1].Iteration != l.Iteration { // the one before was not the last
			for len(kept) > 0 && kept[len(kept)-1].Iteration > 1 {
				kept = kept[:len(kept)-1]
			}
		}
		kept = append(kept, l)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Talk
	shown := map[int]int{}
	for _, l := range kept {
		if shown[l.Iteration]++; shown[l.Iteration] > mostTalks || l.Episode == nil {
			continue
		}
		all = append(all, talkOf(l, source))
	}
	return all, nil
}

func talkOf(l ledger.TranscriptLine, source Source) Talk {
	t := Talk{Iteration: l.Iteration, Prompt: l.Prompt, Sample: l.Sample, Total: l.Total, Advantage: l.Advantage,
		Prompted: l.Text, End: string(l.Episode.End), Picture: source(l.Picture), Given: saw(l, -1, source)}
	piece := 0
	for n, turn := range l.Episode.Turns {
		one := TalkTurn{Saw: saw(l, n, source)}
		for at := turn.From; at < turn.To && piece < len(l.Pieces) && at < len(l.Episode.LogProb); at++ {
			one.Words = append(one.Words, Word{l.Pieces[piece], math.Exp(min(0, l.Episode.LogProb[at]))})
			piece++
		}
		for _, c := range turn.Calls {
			one.Calls = append(one.Calls, callWords(c))
		}
		t.Turns = append(t.Turns, one)
	}
	return t
}

// saw are the pictures that came with a turn; -1: with the question.
func saw(l ledger.TranscriptLine, turn int, source Source) []Seen {
	var all []Seen
	for i, name := range l.Saw {
		if i >= len(l.Episode.Shots) || l.Episode.Shots[i].Turn != turn {
			continue
		}
		shot := l.Episode.Shots[i]
		s := Seen{Source: source(name), Width: shot.ShownWidth, Height: shot.ShownHeight}
		if shot.Width != shot.ShownWidth || shot.Height != shot.ShownHeight {
			s.From = fmt.Sprintf("%d × %d", shot.Width, shot.Height)
		}
		if s.Source != "" {
			all = append(all, s)
		}
	}
	return all
}

func callWords(c tools.CallTaken) string {
	says := c.Tool
	for _, op := range c.Ops {
		says += fmt.Sprintf(": %s %v", op.Kind, op.Rect)
	}
	if c.Refused != "" {
		says += fmt.Sprintf(" refused (%s): %s", c.Refused, c.Message)
	}
	return says
}
