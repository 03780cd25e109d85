package judge

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestQuestion: blanks are filled in, answers are read, and an unreadable reply has no score.
func TestQuestion(t *testing.T) {
	reply := rewards.Item{Prompt: "which colour?", Meta: rewards.Meta{"answer": []byte(`["crimson", "red"]`)},
		Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<answer>red</answer>"}}}}
	whole := reply
	whole.Transcript = &rewards.Transcript{Turns: []rewards.Turn{{Text: "it is red"}}}
	picture := rewards.Item{Prompt: "a cup", Image: shade(9)}
	for _, c := range []struct {
		name, text, read string
		item             rewards.Item
		said             []string
		asks             string // the first question
		want             float64
		missing          bool
	}{
		{"one", "{prompt} {answer} {truth}", "one", reply, []string{"1"}, "which colour? red crimson\nred", 1, false},
		{"the whole turn", "{answer}?", "true", whole, []string{"FALSE"}, "it is red?", 0, false},
		{"unclear at first", "{answer}", "judge", reply, []string{"hm", "<judge>True</judge>"}, "red", 1, false},
		{"a picture", "Is this {prompt}?", "score", picture, []string{"<Score>4</Score>"}, "Is this a cup?", 0.8, false},
		{"a mark", "{prompt}", "final", picture, []string{"Final Score: 2"}, "a cup", 0.4, false},
		{"never clear", "{prompt}", "one", picture, []string{"hm"}, "a cup", 0, true},
		{"gone", "{prompt}", "one", picture, nil, "a cup", 0, true},
		{"no truth", "{prompt} {truth}", "one", picture, []string{"1"}, "", 0, true},
		{"no such reading", "{prompt}", "lips", picture, []string{"1"}, "", 0, true},
		{"no blank", "Is it good?", "one", picture, []string{"1"}, "Is it good?", 1, false},
		{"not shown", "{prompt}", "one", reply, []string{"1"}, "", 0, true},
		{"no turn", "{answer}", "one", rewards.Item{Transcript: &rewards.Transcript{}}, []string{"1"}, "", 0, true},
	} {
		n, first := 0, ""
		q := Question{Text: c.text, Read: c.read, Tries: 3, Model: says(func(shown []uint8, text string) (string, error) {
			if n++; n == 1 {
				first = text
			}
			if (len(shown) > 0) != (c.item.Image != nil) {
				t.Errorf("%s: shown %v", c.name, shown)
			}
			if c.said == nil {
				return "", errors.New("gone")
			}
			return c.said[min(n, len(c.said))-1], nil
		})}
		s, err := q.Score(t.Context(), c.item)
		if (err != nil) != c.missing || err == nil && math.Abs(s.Value-c.want) > 1e-12 || first != c.asks {
			t.Errorf("%s: %+v, want %v, %v; asked %q", c.name, s, c.want, err, first)
		}
	}
}

// TestVRAG: a reply without a tag is wrong and not asked about; the published question holds all blanks.
func TestVRAG(t *testing.T) {
	asked := 0
	q, err := VRAG(says(func(_ []uint8, text string) (string, error) { asked++; return "<judge>True</judge>", nil }))
	if err != nil || !strings.Contains(q.Text, "{prompt}") || !strings.Contains(q.Text, "{truth}") {
		t.Fatal(err, q.Text)
	}
	for text, want := range map[string]float64{"<answer>red</answer>": 1, "red": 0} {
		item := rewards.Item{Meta: rewards.Meta{"answer": []byte(`"red"`)}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: text}}}}
		if s, err := q.Score(t.Context(), item); err != nil || s.Value != want {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	if asked != 1 {
		t.Errorf("%d questions", asked)
	}
}

// TestQuestionFirst: an answer that a rule calls right needs no model; the model judges all others, also those that
// the rule cannot compare.
func TestQuestionFirst(t *testing.T) {
	reply := func(text string) rewards.Item {
		return rewards.Item{Prompt: "how many?", Meta: rewards.Meta{"answer": []byte(`"7"`)},
			Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: text}}}}
	}
	asked := 0
	q := Question{Text: "{answer} {truth}", Read: "one", First: answers.Rule(answers.Relative{Exact: true}.Rule).Reward(),
		Model: says(func([]uint8, string) (string, error) { asked++; return "1", nil })}
	for _, c := range []struct {
		item rewards.Item
		asks int
	}{{reply("7"), 0}, {reply("seven of them"), 1}, {reply("<answer>8</answer>"), 1}} {
		asked = 0
		s, err := q.Score(t.Context(), c.item)
		if err != nil || s.Value != 1 || asked != c.asks {
			t.Errorf("%q: %v, %v, asked %d times, want %d", c.item.Transcript.Last(), s, err, asked, c.asks)
		}
		if said := s.Evidence[len(s.Evidence)-1].Text; c.asks == 0 && !strings.Contains(said, "not asked") {
			t.Errorf("the ledger says %q", said)
		}
	}
	words := reply("7")
	words.Meta["answer"] = []byte(`"seven"`)
	if s, err := q.Score(t.Context(), words); err != nil || s.Value != 1 || asked != 2 {
		t.Errorf("a truth that the rule cannot compare: %v, %v, asked %d times", s, err, asked)
	}
}

// TestQuestionConversation: a judge reads every turn, and sees the pictures where it looks.
func TestQuestionConversation(t *testing.T) {
	item := rewards.Item{Prompt: "which digit?", Transcript: &rewards.Transcript{Shown: []*vision.Image{shade(1), shade(2)},
		Turns: []rewards.Turn{{Text: "I look closer.", Tool: "zoom"}, {Text: "<answer>7</answer>"}}}}
	var saw []uint8
	var read string
	q := Question{Text: "Judge:\n{conversation}\nEnd.", Read: "score", Model: says(func(shown []uint8, text string) (string, error) {
		saw, read = shown, text
		return "<Score>3</Score>", nil
	})}
	for _, looks := range []bool{false, true} {
		q.Looks = looks
		s, err := q.Score(t.Context(), item)
		if err != nil || s.Value != 0.6 || len(saw) != map[bool]int{false: 0, true: 2}[looks] {
			t.Errorf("%v, %v, pictures %v", s, err, saw)
		}
		if want := "Judge:\nUser: which digit?\n\nAssistant: I look closer.\n\n(tool zoom was called)\n\nAssistant: <answer>7</answer>\nEnd."; read != want {
			t.Errorf("it reads %q, want %q", read, want)
		}
	}
}
