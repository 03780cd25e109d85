package answers

import (
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
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
