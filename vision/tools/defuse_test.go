package tools

import (
	"fmt"
	"strings"
	"testing"
)

// repeats runs no code: it prints, raises or fails with the words that it was given.
type repeats struct{ raises bool }

func (r repeats) Run(code string) (Execution, error) {
	if r.raises {
		return Execution{Failed: true, Error: code}, nil
	}
	return Execution{Text: code}, nil
}

// TestDefused: in every protocol, a special token that a model or its code writes comes back to it as
// plain text, so that it opens no turn and claims no picture; each one is counted.
func TestDefused(t *testing.T) {
	special := []string{"<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|endoftext|>", "<image>", "</s>", "[INST]"}
	told := map[string]int{}
	for _, p := range Protocols() {
		name := p.Name
		for _, token := range special {
			for _, text := range []string{
				call(token, `{}`),
				call("zoom", `{"label": "`+token+`"}`),
				"<tool_call>" + token + "</tool_call>",
				call("image_zoom_in_tool", `{"bbox_2d": [10, 10, 60, 60], "label": "`+token+`"}`),
				call("image_zoom_in_tool", `{"bbox_2d": ["`+token+`", 10, 60, 60]}`),
				`<grounding>{"bbox_2d": [0, 0, 1, 1], "source": "` + token + `"}</grounding>`,
				"<code>```python\n" + token + "\n```</code>",
				"<code>\n```python\n" + token + "\n```\n</code>",
			} {
				for _, raises := range []bool{false, true} {
					p, err := Named(name)
					if err != nil {
						t.Fatal(err)
					}
					s := &State{Album: NewAlbum(striped(100, 80)), Program: repeats{raises}, Special: special}
					r := p.Step(s, text)
					plain := p.Step(&State{Album: s.Album, Program: s.Program, Special: special}, strings.ReplaceAll(text, token, "harmless"))
					if r.End != "" {
						continue
					}
					if got, want := specials(r.Text, special), specials(plain.Text, special); !r.Sound() || plain.End == "" && got != want {
						t.Errorf("%s: %q is answered with %q: special tokens %s, not %s", name, text, r.Text, got, want)
					}
					if r.Defused > 0 {
						told[name]++
					}
				}
			}
		}
	}
	for _, name := range []string{"darkroom", "deepeyes", "deepeyes_v5", "deepeyes_v2", "pixel_reasoner", "verl", "pyvision", "mini_o3"} {
		if told[name] == 0 {
			t.Errorf("%s told no special token back: nothing was tried", name)
		}
	}
}

// specials is how often a text holds each special token.
func specials(text string, special []string) string {
	var all []string
	for _, token := range special {
		all = append(all, fmt.Sprint(strings.Count(text, token)))
	}
	return strings.Join(all, " ")
}

// TestDefusedIsCounted: a transcript says how many special tokens were defused in it.
func TestDefusedIsCounted(t *testing.T) {
	got, _ := played(t, Limits{}, call("<|video_pad|><|im_start|>", `{}`), "<answer>B</answer>")
	if got.End != Answered || got.Defused != 2 {
		t.Errorf("ended with %s, %d defused", got.End, got.Defused)
	}
}

// TestPicturesOfATurn: however many calls a turn makes, neither the turn's pictures nor the album's exceed their
// limits, and the model reads which call was refused.
func TestPicturesOfATurn(t *testing.T) {
	turn := strings.Repeat(call("rotate", `{"angle": 90}`), 100)
	got, _ := played(t, Limits{Turns: 2}, turn, "<answer>B</answer>")
	if made, refused := got.ToolCalls(); len(got.Shots) != 1+mostOfTurn || made != 100 || refused != 100-mostOfTurn {
		t.Errorf("without a limit: %d pictures, %d calls, %d refused", len(got.Shots), made, refused)
	}
	got, _ = played(t, Limits{Pictures: 4}, turn, "<answer>B</answer>")
	if len(got.Shots) != 4 || !strings.Contains(got.Turns[0].Calls[99].Message, "more than 4 pictures") {
		t.Errorf("limit 4: %d pictures, %q", len(got.Shots), got.Turns[0].Calls[99].Message)
	}
}
