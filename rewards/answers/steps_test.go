package answers

import (
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

// TestSteps compares R1-VL's rewards with the results of its own functions (open_r1/grpo.py) for these replies.
func TestSteps(t *testing.T) {
	const (
		head = "### Image Description:\nA cup.\n\n### Rationales:\nCount.\n\n### Let's think step by step.\n\n"
		keys = `{"Steps": ["x = 4", ["Area", "surface"], "seven"]}`
	)
	for _, c := range []struct {
		name, reply string
		key, final  float64
		reasoned    bool
	}{
		{"whole", head + "### Step 1:\nThe AREA is 28.\n\n### Step 2:\nSo x = 4.\n\n### The final answer is: 4", 2.0 / 3, 1, true},
		{"answer on the next line", head + "### Step 1:\nx = 4 seven surface\n\n### The final answer is:\n4", 1, 1, true},
		{"nothing after the answer's head", head + "### Step 1: seven\n\n### The final answer is:", 1.0 / 3, 0, true},
		{"steps out of order", head + "### Step 1:\na\n\n### Step 3:\nseven\n\n### The final answer is: 4", 1.0 / 3, 1, false},
		{"answer before a step", head + "### Step 1:\na\n\n### The final answer is: 4\n\n### Step 2:\nx = 4", 1.0 / 3, 1, false},
		{"answer twice", head + "### The final answer is: 3\n### Step 1:\na\n\n### The final answer is: 4", 0, 0, false},
		{"no rationales", "### Image Description:\nA\n### Step 1:\narea\n### The final answer is: 4", 1.0 / 3, 1, false},
		{"an empty step takes what follows", head + "### Step 1:\n### Step 2:\nx = 4\n\n### The final answer is: 4", 1.0 / 3, 1, true},
		{"key outside of the steps", head + "seven x = 4 area\n### Step 1:\nnone\n\n### The final answer is: 4 seven", 0, 0, true},
		{"other digits", head + "### Step 1:\nseven\n\n### Step \u0662:\narea\n\n### The final answer is: 4", 2.0 / 3, 1, true},
		{"plain", "4", 0, 1, false},
	} {
		item := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: c.reply}}},
			Meta: rewards.Meta{"answer": json.RawMessage(`"### The final answer is: 4"`), "key_steps": json.RawMessage(keys)}}
		if s, err := (KeySteps{}).Score(t.Context(), item); err != nil || s.Value != c.key {
			t.Errorf("%s: key steps %v, %v, want %v", c.name, s.Value, err, c.key)
		}
		if s, err := Rule(FinalAnswer).Reward().Score(t.Context(), item); err != nil || s.Value != c.final {
			t.Errorf("%s: final answer %v, %v, want %v", c.name, s.Value, err, c.final)
		}
		if got := Reasoned(c.reply); got != c.reasoned {
			t.Errorf("%s: reasoned %v", c.name, got)
		}
	}
	for _, bad := range []string{`4`, `null`, `{"steps taken": ["a"]}`, `{"Steps": null}`, `{"Steps": [4]}`, `[["a", 4]]`} {
		item := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "x"}}}, Meta: rewards.Meta{"key_steps": json.RawMessage(bad)}}
		if s, err := (KeySteps{}).Score(t.Context(), item); err == nil {
			t.Errorf("key steps %s: %+v", bad, s)
		}
	}
}
