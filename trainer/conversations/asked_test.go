package conversations

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
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
	e := learning(t, "embed:zoom-lessons", "episode.system=General.")
	e.Rollout.Prompts = []string{file}
	ask := asker(e, model.Options{Train: list})
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
	e := learning(t, "embed:zoom-lessons", `episode.tools=["zoom"]`, "episode.frame=unit")
	e.Rollout.Prompts = []string{file}
	ask := asker(e, model.Options{Train: list})
	for i, want := range []string{"vrag", "deepeyes", "", ""} {
		q, err := ask(i)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.By; (got == nil) != (want == "") || got != nil && (got.Protocol != want || len(got.Tools) > 0 || got.Frame != "shown" || got.Turns != e.Episode.Turns) {
			t.Errorf("prompt %d is asked by %+v, want %q", i, got, want)
		}
	}
	for i, want := range map[int]string{4: `no protocol "zoomer"`, 5: "episode.exec", 6: "meta.protocol is 4"} {
		if _, err := ask(i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("prompt %d: %v", i, err)
		}
	}
}
