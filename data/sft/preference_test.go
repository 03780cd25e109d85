package sft

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestPreference: published forms of judged answers are the same two conversations, the better one first, with the
// prompt's messages apart; a row with a label is one.
func TestPreference(t *testing.T) {
	for name, row := range map[string]string{
		"TRL":           `{"prompt": [{"role": "user", "content": "<image>Which?"}], "chosen": [{"role": "assistant", "content": "7"}], "rejected": [{"role": "assistant", "content": "3"}], "images": ["a.png"]}`,
		"TRL, implicit": `{"chosen": [{"role": "user", "content": "<image>Which?"}, {"role": "assistant", "content": "7"}], "rejected": [{"role": "user", "content": "<image>Which?"}, {"role": "assistant", "content": "3"}], "images": ["a.png"]}`,
		"LLaMA-Factory": `{"conversations": [{"from": "human", "value": "<image>Which?"}], "chosen": {"from": "gpt", "value": "7"}, "rejected": {"from": "gpt", "value": "3"}, "images": ["a.png"]}`,
		"MMPR":          `{"image": "a.png", "question": "Which?", "chosen": "7", "rejected": "3"}`,
	} {
		all, err := ReadPreference(row)
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %d answers, %v", name, len(all), err)
			continue
		}
		for i, says := range []string{"7", "3"} {
			if j := all[i]; j.Good != (i == 0) || j.PromptMessages != 1 || j.Last() != says || j.Question() != "Which?" || len(j.Pictures) != 1 || j.Pictures[0] != "a.png" {
				t.Errorf("%s: answer %d is %+v", name, i, j)
			}
		}
	}
	for name, row := range map[string]string{
		"marked":   `{"prompt": [{"role": "user", "content": "<video>Where?"}], "chosen": "left", "rejected": "up", "videos": ["a.gif"]}`,
		"unmarked": `{"prompt": "Where?", "chosen": "left", "rejected": "up", "video": "a.gif"}`,
		"a part":   `{"prompt": [{"role": "user", "content": [{"type": "video", "video": "a.gif"}, {"type": "text", "text": "Where?"}]}], "chosen": "left", "rejected": "up"}`,
		"KTO":      `{"prompt": "Where?", "completion": "left", "label": true, "videos": ["a.gif"]}`,
	} {
		all, err := ReadPreference(row)
		if err != nil {
			t.Errorf("a clip, %s: %v", name, err)
		}
		for i, j := range all {
			if first := j.Messages[0].Content; len(j.Clips) != 1 || j.Clips[0] != "a.gif" || len(first) != 2 || first[0].Kind != vlm.ClipPart || j.Question() != "Where?" {
				t.Errorf("a clip, %s: answer %d is %+v", name, i, j)
			}
		}
	}
	both, err := ReadPreference(`{"prompt": "Where?", "chosen": "left", "rejected": "up", "videos": ["a.gif"], "images": ["b.png"]}`)
	if err != nil || len(both[0].Messages[0].Content) != 3 || both[0].Messages[0].Content[0].Kind != vlm.ClipPart {
		t.Errorf("a clip and a picture: %+v, %v", both, err)
	}
	for name, row := range map[string]string{
		"KTO":           `{"prompt": [{"role": "user", "content": "Which?"}], "completion": [{"role": "assistant", "content": "3"}], "label": false}`,
		"texts":         `{"prompt": "Which?", "completion": "3", "label": false}`,
		"LLaMA-Factory": `{"conversations": [{"from": "human", "value": "Which?"}, {"from": "gpt", "value": "3"}], "kto_tag": false}`,
	} {
		if all, err := ReadPreference(row); err != nil || len(all) != 1 || all[0].Good || all[0].Last() != "3" || all[0].PromptMessages != 1 {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	turns := `{"system": "Be brief.", "prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Which?"}], "completion": "3", "label": true}`
	if all, err := ReadPreference(turns); err != nil || !all[0].Good || all[0].PromptMessages != 4 {
		t.Errorf("a prompt of several turns: %+v, %v", all, err)
	}
	for says, row := range map[string]string{
		`"rejected": an answer was expected`: `{"prompt": "Which?", "chosen": "7"}`,
		`"completion": an answer`:            `{"prompt": "Which?", "label": true}`,
		`no "prompt"`:                        `{"chosen": "7", "rejected": "3"}`,
		"the assistant says nothing":         `{"prompt": "Which?", "chosen": [{"role": "user", "content": "7"}], "rejected": "3"}`,
		"other pictures than marks":          `{"prompt": "<image>Which?", "chosen": "7", "rejected": "3", "images": ["a.png", "b.png"]}`,
		`"prompt": a text or a list`:         `{"prompt": 4, "chosen": "7", "rejected": "3"}`,
		"an object was expected":             `[1]`,
	} {
		if _, err := ReadPreference(row); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", row, err)
		}
	}
}
