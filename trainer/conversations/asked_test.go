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
