package judge

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

// TestQuestion: blanks are filled in, answers are read, and what cannot be read has no score.
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
