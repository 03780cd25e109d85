package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// Conversations of a model that speaks: those of the first iteration and of the last whose
// pictures were kept, with the crops on the picture. A word is as blue as its episode's
// advantage is above 0 and as red as it is below, and the paler, the surer the model was of it:
// what the update moves most stands out.

// mostTalks is how many conversations an iteration shows.
const mostTalks = 8

type talk struct {
	Caption string
	Ask     string
	Picture template.URL
	Turns   []talkTurn
	End     string
}

type talkTurn struct {
	Words []word
	Calls []string
}

type word struct {
	Text  string
	Style template.CSS
	Title string
}

// talks are the conversations to show; none where the run has none.
func talks(dir string) ([]talk, error) {
	var kept []ledger.TranscriptLine
	last := 0
	err := folder.ReadLines(filepath.Join(dir, ledger.TranscriptsFile), func(text []byte) error {
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
	var all []talk
	shown := map[int]int{}
	for _, l := range kept {
		if shown[l.Iteration]++; shown[l.Iteration] > mostTalks || l.Episode == nil {
			continue
		}
		t, err := talkOf(dir, l)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func talkOf(dir string, l ledger.TranscriptLine) (talk, error) {
	t := talk{Ask: l.Text, End: string(l.Episode.End), Caption: fmt.Sprintf("iteration %d, prompt %d, sample %d", l.Iteration, l.Prompt, l.Sample)}
	if l.Total != nil {
		t.Caption += fmt.Sprintf(": %.3g", *l.Total)
	}
	if l.Advantage != nil {
		t.Caption += fmt.Sprintf(", advantage %+.2f", *l.Advantage)
	}
	if l.Picture != "" {
		if source, err := embedded(dir, l.Picture); err == nil { // one that was deleted is not shown
			t.Picture = source
		}
	}
	piece := 0
	for _, turn := range l.Episode.Turns {
		var one talkTurn
		for at := turn.From; at < turn.To && piece < len(l.Pieces) && at < len(l.Episode.LogProb); at++ {
			one.Words = append(one.Words, wordOf(l.Pieces[piece], l.Episode.LogProb[at], l.Advantage))
			piece++
		}
		for _, c := range turn.Calls {
			says := c.Tool
			for _, op := range c.Ops {
				says += fmt.Sprintf(": %s %v", op.Kind, op.Rect)
			}
			if c.Refused != "" {
				says += fmt.Sprintf(" refused (%s): %s", c.Refused, c.Message)
			}
			one.Calls = append(one.Calls, says)
		}
		t.Turns = append(t.Turns, one)
	}
	return t, nil
}

// wordOf colours a token.
func wordOf(text string, logProb float64, advantage *float64) word {
	w := word{Text: text, Title: fmt.Sprintf("probability %.3f", math.Exp(logProb))}
	if advantage == nil || *advantage == 0 || math.IsNaN(logProb) {
		return w
	}
	hue := "0, 114, 178"
	if *advantage < 0 {
		hue = "213, 94, 0"
	}
	strength := min(1, math.Abs(*advantage)) * (0.12 + 0.6*(1-math.Exp(min(0, logProb))))
	w.Style = template.CSS(fmt.Sprintf("background: rgba(%s, %.2f)", hue, strength)) //nolint:gosec // numbers alone
	return w
}
