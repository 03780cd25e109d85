package tools

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// scribbles prints " " and draws two pictures, or raises.
type scribbles struct{ raises string }

func (d scribbles) Run(code string) (Execution, error) {
	if d.raises != "" {
		return Execution{Failed: true, Error: d.raises}, nil
	}
	if code == "plot()" {
		return Execution{Text: "  x", Drawn: []*vision.Image{striped(40, 30), striped(40, 30)}}, nil
	}
	return Execution{Text: code}, nil
}

// finds repeats the request.
type finds struct{}

func (finds) Answer(name string, arguments pytext.Ordered) (Answer, error) {
	return Answer{Text: name + " " + pytext.Dumps(arguments)}, nil
}

// TestDeepEyesV2 holds observations to those that upstream's execute gave, with its sandbox and its search replaced.
func TestDeepEyesV2(t *testing.T) {
	picture := striped(100, 80)
	code := func(printed, raised string) string {
		return "Code execution result:\nstdout:\n```\n" + printed + "\n```\n\nstderr:\n```\n" + raised + "\n```"
	}
	for _, c := range []struct {
		text, raises, says string
		end                End
	}{
		{text: "<code>\n```python\nprint(1)\n```\n</code>", says: code("print(1)", "")},
		{text: "<code>\n```python\nplot()\n```\n</code>", says: code("  x", "") + "\n\nImages:\n<image><image>"},
		{text: "<code>```python\nf()\n```</code>", raises: "boom", says: code("", "boom")},
		{text: "<code>\n```python\na\n```\n</code><code>\n```python\nb\n```\n```python\nc\n```\n</code>", says: code("c", "")},
		{text: `<tool_call>{"name": "search", "arguments": {"query": "cats"}}</tool_call>`, says: "<tool_response>\nsearch {\"query\": \"cats\"}\n</tool_response>"},
		{text: `<tool_call>{"name": "image_search"}</tool_call>`, says: "<tool_response>\nimage_search {\"picture\": \"" + NewAlbum(picture).Pictures[0].Hash() + "\"}\n</tool_response>"},
		{text: `<tool_call> {"name": "image_search", "arguments": {}}</tool_call>`, says: `Error: Invalid tool call parameters for image search: {"name": "image_search", "arguments": {}}.`},
		{text: `<tool_call>{"name": "zoom"}</tool_call>`, says: `Error: Invalid tool call name: {"name": "zoom"}.`},
		{text: `<tool_call>{name</tool_call>`, says: "Error: Invalid tool call format: {name. Error: not JSON: at byte 1, a name was expected"}, // upstream says it in Python's words
		{text: `<tool_call>{"x": 1}</tool_call>`, says: "Error: 'name'"},
		{text: "<code>none</code>", end: NoCall},
		{text: "nothing", end: NoCall},
		{text: "<tool_call></tool_call>", end: NoCall},
		{text: "<answer></answer><tool_call>{\"name\": \"search\"}</tool_call><code>", end: NoCall},
		{text: "<answer>A</answer><answer>B</answer><code>\n```python\na\n```</code>", end: Answered},
	} {
		r := DeepEyesV2().Step(&State{Album: NewAlbum(picture), Program: scribbles{c.raises}, Outside: finds{}}, c.text)
		want := ""
		if c.end == "" {
			want = "<|im_end|>\n<|im_start|>user\n" + c.says + "<|im_end|>\n<|im_start|>assistant\n<think>"
		}
		if r.End != c.end || r.Text != want || !r.Sound() && c.end == "" || r.Pictures != strings.Count(c.says, "<image>") {
			t.Errorf("%q: %q with %d pictures, %q, want %q", c.text, r.Text, r.Pictures, r.End, want)
		}
	}
}
