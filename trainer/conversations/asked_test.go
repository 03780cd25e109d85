package conversations

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/internal/rigs/sfttest"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestAskedMessages: a prompt of several messages is asked as its row says, with its own system text and tools; the
// experiment's system text is for prompts that have none.
func TestAskedMessages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jsonl")
	rows := `{"prompt": [{"role": "system", "content": "Own."}, {"role": "user", "content": "<image>How many?"}, {"role": "assistant", "content": "Of what?"}, {"role": "user", "content": "Cats."}], "images": ["embed:cards/1"], "tools": [{"name": "search"}]}
{"prompt": [{"role": "user", "content": "Plain?"}]}`
	if err := os.WriteFile(file, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := prompts.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	e := sfttest.Experiment(t, "embed:zoom-lessons", "episode.system=General.")
	e.Rollout.Prompts = []string{file}
	ask := promptReader(e, model.Options{Train: list}, vlm.Qwen3VL)
	for i, want := range []string{
		"# Tools|Own.|search|How many?|Of what?|Cats.",
		"General.|Plain?",
	} {
		q, err := ask(i)
		if err != nil {
			t.Fatal(err)
		}
		text, err := vlm.Qwen3VL.Render(q.Messages, vlm.Rendering{Generate: true, Tools: q.Tools})
		if err != nil || len(q.Pictures) != 1-i {
			t.Fatalf("%d pictures, %v", len(q.Pictures), err)
		}
		for part := range strings.SplitSeq(want, "|") {
			if !strings.Contains(text, part) {
				t.Errorf("prompt %d does not say %q:\n%s", i, part, text)
			}
		}
		if strings.Contains(text, "General.") != (i == 1) {
			t.Errorf("prompt %d: whose system text? %s", i, text)
		}
	}
}

// TestAskedByProtocol: a prompt may name its protocol, in its meta or as a column of its row; it has that one's tools,
// all of them, and one that there is not is refused by name.
func TestAskedByProtocol(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jsonl")
	rows := `{"prompt": "Which?", "meta": {"protocol": "vrag"}}
{"prompt": [{"role": "user", "content": "Which?"}], "protocol": "deepeyes"}
{"prompt": "Which?", "meta": {"protocol": "darkroom"}}
{"prompt": "Which?"}
{"prompt": "Which?", "meta": {"protocol": "zoomer"}}
{"prompt": "Which?", "meta": {"protocol": "pyvision"}}
{"prompt": "Which?", "meta": {"protocol": 4}}`
	if err := os.WriteFile(file, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := prompts.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	e := sfttest.Experiment(t, "embed:zoom-lessons", `episode.tools=["zoom"]`, "episode.frame=unit")
	e.Rollout.Prompts = []string{file}
	ask := promptReader(e, model.Options{Train: list}, vlm.Qwen3VL)
	for i, want := range []string{"vrag", "deepeyes", "", ""} {
		q, err := ask(i)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Episode; (got == nil) != (want == "") || got != nil && (got.Protocol != want || len(got.Tools) > 0 || got.Frame != "shown" || got.Turns != e.Episode.Turns) {
			t.Errorf("prompt %d is asked by %+v, want %q", i, got, want)
		}
	}
	for i, want := range map[int]string{4: `no protocol "zoomer"`, 5: "episode.exec", 6: "meta.protocol is 4"} {
		if _, err := ask(i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("prompt %d: %v", i, err)
		}
	}
}

// TestAskedAreTold: a model reads its protocol's published description of tools, in upstream's messages; a row's own
// text, and the experiment's, come first, and embedded models read none.
func TestAskedAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jsonl")
	rows := `{"prompt": "Which?", "meta": {"picture": "embed:cards/1"}}
{"prompt": [{"role": "system", "content": "Own."}, {"role": "user", "content": "Which?"}]}
{"prompt": "Which?\nThink first, call **image_zoom_in_tool** if needed, then answer. Format strictly as:  <think>...</think>  <tool_call>...</tool_call> (if tools needed)  <answer>...</answer>"}
{"prompt": [{"role": "user", "content": "Which?"}], "tools": [{"name": "search"}]}
{"prompt": "Which?", "meta": {"protocol": "vrag"}}`
	if err := os.WriteFile(file, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := prompts.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	said := func(path string, form vlm.Template, n int, sets ...string) string {
		t.Helper()
		e := sfttest.Experiment(t, "embed:zoom-lessons", append([]string{"episode.protocol=deepeyes"}, sets...)...)
		e.Rollout.Prompts, e.Model.Path = []string{file}, path
		q, err := promptReader(e, model.Options{Train: list}, form)(n)
		if err != nil {
			t.Fatal(err)
		}
		if q.UserText() != "" && n != 2 && q.Question != "Which?" {
			t.Errorf("environments hear that the user said %q", q.Question)
		}
		text, err := form.Render(q.Messages, vlm.Rendering{Generate: true, Tools: q.Tools})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const system, remind = "<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\nYou may call one or more functions", "Which?\nThink first, call **image_zoom_in_tool** if needed"
	picture := "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>"
	if text := said("qwen", vlm.Qwen25VL, 0); !strings.HasPrefix(text, system) || !strings.Contains(text, picture+remind) {
		t.Errorf("DeepEyes' question reads\n%s", text)
	}
	if text := said(assets.Prefix+"tiny-vlm", vlm.Qwen25VL, 0); strings.Contains(text, "Tools") || !strings.Contains(text, picture+"Which?<|im_end|>") {
		t.Errorf("an embedded model is told\n%s", text)
	}
	if text := said(assets.Prefix+"tiny-vlm", vlm.Qwen25VL, 0, "episode.system=Look."); !strings.Contains(text, "system\nLook.<|im_end|>") {
		t.Errorf("an embedded model is told, by the file, \n%s", text)
	}
	if text := said("qwen", vlm.Qwen25VL, 0, `episode.system=""`); strings.Contains(text, "Tools") || strings.Contains(text, "Think first") {
		t.Errorf("with system = \"\" it reads\n%s", text)
	}
	if text := said("qwen", vlm.Qwen25VL, 1); strings.Contains(text, "Tools") || !strings.Contains(text, "Which?<|im_end|>") {
		t.Errorf("a row with a system message of its own reads\n%s", text)
	}
	if text := said("qwen", vlm.Qwen25VL, 2); strings.Count(text, "Think first") != 1 || !strings.HasPrefix(text, system) {
		t.Errorf("a row that has the words reads\n%s", text)
	}
	if text := said("qwen", vlm.Qwen3VL, 3); strings.Contains(text, "image_zoom_in_tool") || !strings.Contains(text, "search") {
		t.Errorf("a row with tools of its own reads, by a template that writes them,\n%s", text)
	}
	if text := said("qwen", vlm.Qwen25VL, 3); !strings.HasPrefix(text, system) {
		t.Errorf("a row with tools of its own reads, by a template that does not write them,\n%s", text)
	}
	if text := said("qwen", vlm.Qwen3VL, 4); strings.Contains(text, "system") || !strings.Contains(text, "you can call a search engine by <search> query </search>") || !strings.HasSuffix(text, "Question: Which?<|im_end|>\n<|im_start|>assistant\n") {
		t.Errorf("VRAG's question reads\n%s", text)
	}
	for _, p := range tools.Protocols() {
		name, sets := p.Name, []string{"episode.protocol=" + p.Name}
		if p.Code {
			sets = append(sets, `episode.exec.command=["python3", "-"]`)
		}
		if plain := said("qwen", vlm.Qwen3VL, 0, append(sets, `episode.system=""`)...); said("qwen", vlm.Qwen3VL, 0, sets...) == plain {
			t.Errorf("%s: a model is told nothing of its tools", name)
		}
	}
}

// TestAskedPlaces: pictures go to their places in a question's text, and before it where it has none or another
// number of them.
func TestAskedPlaces(t *testing.T) {
	m := vision.New(4, 4)
	for text, want := range map[string]string{
		"<image>\nWhich?":             "p \nWhich?",
		"Is <image> left of <image>?": "Is  p  left of  p ?",
		"Which?":                      "p Which?",
		"<image> or <image>, which?":  "p <image> or <image>, which?",
	} {
		n := 1
		if text == "Is <image> left of <image>?" {
			n = 2
		}
		var parts []string
		for _, part := range chat.NewPrompt(text, []*vision.Image{m, m}[:n]...).Messages[0].Content {
			if part.Kind == vlm.PicturePart {
				parts = append(parts, "p")
			} else {
				parts = append(parts, part.Text)
			}
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("%q about %d pictures reads %q, want %q", text, n, got, want)
		}
	}
}
