package runtest

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// talks writes conversations of the first iteration and of the last: one call of a tool, one crop, one answer.
func (w *writer) talks() {
	var lines bytes.Buffer
	for _, i := range []int{1, w.Iterations} {
		for k := range 3 {
			record(w.t, &lines, w.talk(i, k))
		}
	}
	w.add(ledger.TranscriptsFile, lines.Bytes())
}

func (w *writer) talk(i, k int) ledger.TranscriptLine {
	table := w.picture(scenes.Random(w.stream("table", k), scenes.Everything), "table", k, w.Iterations)
	crop, err := table.Crop(8, 8, 24, 24)
	w.must(err)
	stem := fmt.Sprintf("images/episode_%06d_%02d", i, k)
	w.file(stem+".png", encoded(w.t, table.Enlarge(3)))
	w.file(stem+"_saw_00.png", encoded(w.t, table))
	w.file(stem+"_saw_01.png", encoded(w.t, crop))
	total, advantage := float64(k%2), float64(k)-0.7
	said := []string{"I", " should", " look", " closer", ".", "The", " digit", " is", " seven" + w.Text}
	t := &tools.Transcript{Prompt: 1, End: tools.Answered, Turns: []tools.Turn{
		{From: 1, To: 6, Observed: 6, Calls: []tools.CallTaken{{Tool: "zoom", Ops: []tools.Op{{Kind: "crop", Rect: tools.Rect{8, 8, 32, 32}}}}}},
		{From: 6, To: 10, Observed: 10}},
		Shots: []tools.Shot{{Width: 64, Height: 64, ShownWidth: 64, ShownHeight: 64, Turn: -1, Root: -1}, {Width: 12, Height: 12, ShownWidth: 24, ShownHeight: 24, Turn: 0, Root: 0}}}
	for at := range 10 {
		t.Tokens, t.LogProb = append(t.Tokens, int32(at)), append(t.LogProb, -0.3*float64(at%4))
		t.Sampled, t.Reward = append(t.Sampled, at > 0), append(t.Reward, 0)
	}
	return ledger.TranscriptLine{Iteration: i, Prompt: k, Sample: k, Text: "Which digit is on the red card?" + w.Text, Said: []string{"", ""}, Pieces: said,
		Picture: stem + ".png", Saw: []string{stem + "_saw_00.png", stem + "_saw_01.png"}, Total: &total, Advantage: &advantage, Episode: t}
}
