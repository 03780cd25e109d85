package answers

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestNamed: every name is there once within its kind, has a card and makes a reward.
func TestNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		found, ok := Find(r.Name, r.Form)
		if seen[r.Name] || r.Card == "" || r.New() == nil || !ok || found.Card != r.Card {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
	}
	if r, ok := Find("", true); !ok || r.Name != Names(true)[0] {
		t.Errorf("the default form is %+v", r)
	}
	if r, ok := Find("no such rule", false); ok {
		t.Errorf("%+v", r)
	}
}

// TestUnreadableTruth: where the truth cannot be read no reply has a score, whatever it says, and none is right.
func TestUnreadableTruth(t *testing.T) {
	for rule, truths := range map[string][]string{
		"map": {`"[10, 10, 50, 50]"`, `"cup"`, "\"```json\\nNone\\n```\"", "\"```json\\n[{}]\\n```\""}, "map_length": {`"cup"`}, "weighted": {`"cup"`, `"[10, 10, 50, 50]"`},
		"detected": {`"cup"`, `"<answer>cup</answer>"`}, "yes_no": {`"cup"`}, "default": {`""`}, "contained": {`""`, `["a", ""]`}, "grounding": {`"cup"`},
		"detection": {`["a", "b"]`},
	} {
		named, ok := Find(rule, false)
		if !ok {
			t.Fatal(rule)
		}
		for _, truth := range truths {
			for _, reply := range []string{"", "I cannot see", "<answer>None</answer>", "```json\n[]\n```"} {
				item := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: reply}}},
					Meta: rewards.Meta{"answer": []byte(truth), "seen": []byte("[9, 9]"), "original": []byte("[9, 9]")}}
				if s, err := named.New().Score(t.Context(), item); err == nil {
					t.Errorf("%s gives %q the score %v, where the truth is %s", rule, reply, s.Value, truth)
				}
			}
		}
	}
	for rule, truth := range map[string]string{"map": "\"```json\\n[{\\\"bbox_2d\\\": [1, 2, 3, 4], \\\"label\\\": \\\"cup\\\"}]\\n```\"", "yes_no": `"yes"`, "detected": `"<answer>None</answer>"`} {
		named, _ := Find(rule, false)
		item := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "I cannot see"}}}, Meta: rewards.Meta{"answer": []byte(truth)}}
		if s, err := named.New().Score(t.Context(), item); err != nil || s.Value != 0 {
			t.Errorf("%s: %v, %v", rule, s.Value, err)
		}
	}
}

// finds is a detector that finds the same things in any picture.
type finds []rewards.Detection

func (f finds) Detect(context.Context, *vision.Image, []string) ([]rewards.Detection, error) {
	return f, nil
}

// TestGrounded: the truth is a detector's box of the label, any of several; without one there is no score.
func TestGrounded(t *testing.T) {
	g := Grounded{finds{{Class: "cup", Box: boxes.Box{20, 20, 60, 40}}, {Class: "cup", Box: boxes.Box{100, 50, 140, 90}}, {Class: "dog", Box: boxes.Box{0, 0, 10, 10}}}}
	ask := func(reply, meta string) (float64, error) {
		item := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: reply}}, Shown: []*vision.Image{vision.New(200, 100)}}}
		if err := json.Unmarshal([]byte(meta), &item.Meta); err != nil {
			t.Fatal(err)
		}
		s, err := g.Score(t.Context(), item)
		return s.Value, err
	}
	for _, c := range []struct {
		reply, meta string
		want        float64
	}{
		{"<answer>[20, 20, 60, 40]</answer>", `{"label": "cup"}`, 1},
		{"<answer>[10, 10, 30, 20]</answer>", `{"label": "cup", "seen": [100, 50]}`, 1},
		{"<answer>[100, 50, 140, 90]</answer>", `{"label": "cup"}`, 1},
		{"<answer>[20, 20, 60, 40]</answer>", `{"label": "dog"}`, 0},
		{"there", `{"label": "cup"}`, 0},
	} {
		if v, err := ask(c.reply, c.meta); err != nil || v != c.want {
			t.Errorf("%s of %s: %v, %v", c.reply, c.meta, v, err)
		}
	}
	for _, meta := range []string{`{"label": "cat"}`, `{}`, `{"label": ""}`, `{"label": "cup", "seen": [0, 1]}`} {
		if v, err := ask("<answer>[20, 20, 60, 40]</answer>", meta); err == nil {
			t.Errorf("%s: %v", meta, v)
		}
	}
}
