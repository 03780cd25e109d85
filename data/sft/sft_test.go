package sft

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

func reader(t *testing.T) Reader {
	t.Helper()
	tokens, err := tokenizer.Open("../../internal/golden/sft/tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	marks, err := vlm.MarksOf(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return Reader{Tokens: tokens, Template: vlm.Qwen3VL, Marks: marks, Merge: 2}
}

func decoded(r Reader, l Lesson) (trained string) {
	var ids []int32
	for i, on := range l.Trained {
		if on {
			ids = append(ids, l.IDs[i])
		}
	}
	return r.Tokens.Decode(ids)
}

// TestWhole: the tokens are those of a rollout, and the trained ones are the answers.
func TestWhole(t *testing.T) {
	r := reader(t)
	messages, err := vlm.ReadMessages(`[{"role": "system", "content": "Mind é (e and its accent)."}, {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]},
		{"role": "assistant", "content": "A café."}, {"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Yes."}]`)
	if err != nil {
		t.Fatal(err)
	}
	grids := []vlm.Grid{{Frames: 1, Rows: 4, Columns: 6}}
	l, err := r.Whole(messages, vlm.Rendering{}, grids, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := vlm.Qwen3VL.Render(messages, vlm.Rendering{})
	e, _ := r.Tokens.Encode(text)
	ids, _, _ := r.Marks.Expand(e.IDs, grids, nil, 2)
	if !slices.Equal(l.IDs, ids) {
		t.Error("the tokens are not those of a rollout")
	}
	if got := decoded(r, l); got != "A café.<|im_end|>\nYes.<|im_end|>\n" {
		t.Errorf("trained is %q", got)
	}
	if _, err := r.Whole(messages, vlm.Rendering{}, nil, nil); err == nil {
		t.Error("a picture is missing, and nobody says so")
	}
}

// TestRefused: the error of an unusable row names the place; a row that upstream leaves out is ErrDropped.
func TestRefused(t *testing.T) {
	for row, want := range map[string]string{
		`{"messages": 3}`:                  `"messages"`,
		`{"messages": [7]}`:                "messages[0]",
		`{"messages": [{"role": 7}]}`:      `"role"`,
		`{"messages": [], "tools": "[1]"}`: "tools",
		`[]`:                               "an object",
		`{"messages": [{"role": "user"}`:   "JSON",
		`{"messages": [{"role": "user", "content": [{"type": "sound"}]}]}`: `"sound"`,
	} {
		if _, err := ReadRow(row, OpenAI); err == nil || errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", row, err)
		}
	}
	if _, err := ReadRow(`{"messages": [{"role": "user", "content": "Hi"}]}`, OpenAI); !errors.Is(err, ErrDropped) {
		t.Errorf("a conversation without an answer: %v", err)
	}
	row, err := ReadRow(`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": "{"}]}`, ShareGPT)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader(t).Turns(row, Styles["qwen3_vl"], How{}, nil); err == nil || !strings.Contains(err.Error(), "calls tools") {
		t.Errorf("calls that are no JSON: %v", err)
	}
}

// FuzzReadRow: no row makes it panic, whatever its form.
func FuzzReadRow(f *testing.F) {
	f.Add(`{"messages": [{"role": "user", "content": "<image>Hi"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "a", "arguments": {}}}]}], "tools": "[{}]"}`)
	f.Add(`{"conversations": [{"from": "system", "value": "x"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "<think>\nb\n</think>\n\nc"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range Formats {
			row, err := ReadRow(text, format)
			if err != nil {
				continue
			}
			for _, turn := range row.turns {
				_ = turn.written()
				_, _ = turn.answer()
			}
		}
	})
}
