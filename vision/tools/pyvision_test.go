package tools

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// notebook is an interpreter that acts by the name of its code.
type notebook struct{ ran []string }

func (n *notebook) Run(code string) (Execution, error) {
	n.ran = append(n.ran, code)
	switch code {
	case "raise":
		return Execution{Failed: true, Error: "division by zero"}, nil
	case "spoil":
		return Execution{Spoiled: true, Error: "too flat"}, nil
	case "broken":
		return Execution{}, errors.New("no interpreter")
	case "show":
		return Execution{Text: "here", Figures: 4, Drawn: []*vision.Image{vision.New(9, 9), vision.New(9, 8)}}, nil
	}
	return Execution{Text: "ran " + code}, nil
}

// TestPrograms: the model's input after each, a turn's reward, and the place where the episode goes on.
func TestPrograms(t *testing.T) {
	fence := func(code string) string { return "<code>\n```python\n" + code + "\n```\n</code>" }
	answer := "<answer>1</answer>"
	for _, c := range []struct {
		turns   []string
		strict  bool
		end     End
		reads   string // the last that it read
		rewards []float64
		ran     int
	}{
		{turns: []string{fence("x"), answer}, end: Answered, reads: "\nText Result:\nran x<", rewards: []float64{0.1}, ran: 1},
		{turns: []string{fence("raise"), answer}, end: Answered, reads: "<interpreter>Execution error: division by zero<", rewards: []float64{0.1}, ran: 1},
		{turns: []string{fence("raise"), answer}, strict: true, end: Refused, rewards: []float64{0.1}, ran: 1},
		{turns: []string{"hm", answer}, end: Answered, reads: "No Python code or final answer found", rewards: nil},
		{turns: []string{"hm", answer}, strict: true, end: Refused},
		{turns: []string{fence("spoil"), answer}, end: Answered, reads: "\nError: Something wrong with processed images. (too flat)<", rewards: []float64{0}, ran: 1},
		{turns: []string{fence("broken"), answer}, end: Answered, reads: ">TOOL_EXECUTION_ERROR<", rewards: []float64{0}, ran: 1},
		{turns: []string{fence("show"), fence("show"), answer}, strict: true, end: Answered, reads: "Text Result:\nhere\nImage Result:\n<image_clue_4>", rewards: []float64{0.1, 0.1}, ran: 2},
		{turns: []string{fence("x")}, end: Turns, rewards: []float64{0.1, 0.1, 0.1}, reads: "ran x", ran: 3}, // the last is run and earns, and nobody reads it
	} {
		w, n := &written{turns: c.turns}, &notebook{}
		p := PyVision(0.1)
		p.Strict = c.strict
		limits := p.Limits
		limits.Turns = 3
		tr, err := Episode{
			Protocol: p, State: &State{Album: NewAlbum(striped(100, 80)), Program: n, Figures: 1}, Limits: limits, Sampler: w, Coder: bytewise{},
			Prompt: Seen{Tokens: []int32{place, place, place, place, 7}, Engine: []int32{place, 7}},
		}.Play(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var rewards []float64
		for _, turn := range tr.Turns {
			rewards = append(rewards, turn.Rewards...)
		}
		read := ""
		if tr.Answers > 0 {
			read = text(w.read[len(w.read)-1])
		}
		if tr.End != c.end || !strings.Contains(read, c.reads) || len(n.ran) != c.ran || len(rewards) != len(c.rewards) {
			t.Errorf("%q: %s, rewards %v, ran %d, read\n%s", c.turns, tr.End, rewards, len(n.ran), read)
		}
		for i := range rewards {
			if rewards[i] != c.rewards[i] {
				t.Errorf("%q: rewards %v, want %v", c.turns, rewards, c.rewards)
			}
		}
	}
}

// text is the text of a stream's bytes.
func text(ids []int32) string {
	var s strings.Builder
	for _, id := range ids {
		if id < 256 {
			s.WriteByte(byte(id))
		}
	}
	return s.String()
}
