package judge

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

func TestDeepEyes(t *testing.T) {
	long := "<answer>" + strings.Repeat("x", 1000) + "</answer>"
	for _, c := range []struct {
		name, kind, reply string
		pictures          int
		judge             []string
		want              float64
		asked             int
		missing           bool
	}{
		{"right", "visual", "<think>a</think><answer>red</answer>", 0, []string{"1"}, 0.8, 1, false},
		{"right and looked", "visual", "<think>a</think><answer>red</answer>", 1, []string{"Judgement: 1"}, 2, 1, false},
		{"wrong", "reasoning", "<think>a</think><answer>red</answer>", 1, []string{"FALSE"}, 0, 1, false},
		{"unclear at first", "reasoning", "<answer>red</answer>", 0, []string{"hm", "true or false", "TRUE"}, 0.8, 3, false},
		{"never clear", "visual", "<answer>red</answer>", 0, []string{"hm", "well", "hm", "well"}, 0, 4, true},
		{"the same again", "visual", "<answer>red</answer>", 0, []string{"hm"}, 0, 2, true},
		{"too long", "visual", long, 0, []string{"1"}, -0.2, 0, false},
		{"no box", "math", "3", 0, []string{"TRUE"}, -0.4, 0, false},
		{"a box", "math", `\boxed{3}`, 0, []string{"TRUE"}, 1.2, 1, false},
		{"proved", "math", `\boxed{proved}`, 0, []string{"FALSE"}, 1.2, 0, false},
		{"the judge is gone", "visual", "<answer>red</answer>", 0, nil, 0, 1, true},
		{"no kind", "poetic", "x", 0, nil, 0, 0, true},
	} {
		asked := 0
		model := says(func(shown []uint8, text string) (string, error) {
			if asked++; len(shown) > 0 || !strings.Contains(text, "which colour?") || !strings.Contains(text, "crimson") {
				t.Errorf("%s: asked %v, %s", c.name, shown, text)
			}
			if c.judge == nil {
				return "", errors.New("gone")
			}
			return c.judge[min(asked, len(c.judge))-1], nil
		})
		d := DeepEyes{Model: model, Kind: c.kind, Tries: 4, Proved: func(reply, _ string) bool { return reply == "proved" }}
		item := rewards.Item{Prompt: "which colour?", Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: c.reply}}, Pictures: c.pictures}}
		if err := json.Unmarshal([]byte(`{"answer": "crimson"}`), &item.Meta); err != nil {
			t.Fatal(err)
		}
		s, err := d.Score(t.Context(), item)
		if (err != nil) != c.missing || err == nil && math.Abs(s.Value-c.want) > 1e-12 || asked != c.asked {
			t.Errorf("%s: %+v after %d questions, want %v, %v", c.name, s, asked, c.want, err)
		}
	}
	for name, item := range map[string]rewards.Item{"nothing": {}, "no truth": {Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "x"}}}}} {
		if s, err := (DeepEyes{Kind: "visual"}).Score(t.Context(), item); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
