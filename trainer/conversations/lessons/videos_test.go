package lessons

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/rigs/sfttest"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestClipLessons: a conversation about a clip is learned from by the tokens and the frames of a rollout about it, in
// OpenAI's form and in ShareGPT's; the assistant's tokens are trained and nothing else.
func TestClipLessons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clips.jsonl")
	if err := os.WriteFile(path, []byte(`{"messages": [{"role": "user", "content": [{"type": "video", "video": "embed:moving/3"}, {"type": "text", "text": "Where does it go?"}]}, {"role": "assistant", "content": "left"}]}
{"conversations": [{"from": "human", "value": "<video>Where does it go?"}, {"from": "gpt", "value": "left"}], "videos": ["embed:moving/3"]}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	e := sfttest.Experiment(t, path, "episode.tokens=4000", "episode.clips={fps=0, count=4, most_pixels=3136}")
	list, long, err := List(e)
	if err != nil || len(list) != 2 || len(long) > 0 {
		t.Fatalf("%d lessons, %v too long, %v", len(list), long, err)
	}
	teaches := teacherOf(t, e)
	k := teaches.vlm
	k.Tokens, k.Template, k.Marks = teaches.Tokens, teaches.Template, teaches.Marks
	for i, p := range list {
		l, at, err := teaches.Lesson(p, "whole")
		if err != nil {
			t.Fatal(err)
		}
		asked := []vlm.Message{{Role: "user", Content: []vlm.Part{{Kind: vlm.ClipPart}, {Text: "Where does it go?"}}}}
		text, err := k.Template.Render(asked, vlm.Rendering{Generate: true})
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := k.ReadPrompt(text, at.Videos)
		if err != nil {
			t.Fatal(err)
		}
		n := len(s.IDs)
		if len(l.IDs) <= n || !slices.Equal(l.IDs[:n], s.IDs) || slices.Contains(l.Trained[:n], true) {
			t.Errorf("lesson %d begins %v, and a rollout %v", i, l.IDs[:min(n, len(l.IDs))], s.IDs)
		}
		if got := strings.TrimSpace(k.Tokens.DecodePlain(l.IDs[n:])); !strings.HasPrefix(got, "left") || !l.Trained[n] {
			t.Errorf("lesson %d teaches %q", i, got)
		}
		if tokens := at.Videos.Grids()[0].Tokens(k.Processor.Merge); tokens == 0 || len(s.Clips.Values) == 0 || slices.Index(l.IDs, k.Marks.Clip) < 0 {
			t.Errorf("lesson %d shows no clip", i)
		}
	}
	if _, _, err := List(sfttest.Experiment(t, path, `rollout.lessons_mask="qwen2_vl"`, "episode.tokens=4000", "episode.clips={fps=0, count=4}")); err == nil || !strings.Contains(err.Error(), "the mask") {
		t.Errorf("a mask of pictures alone: %v", err)
	}
}

// TestJudgedClips: answers about a clip that somebody judged, as pairs and with labels, have the tokens and the frames
// of the same conversations as lessons; of each the answer alone is trained.
func TestJudgedClips(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, rows ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const asked = `{"type": "video", "video": "embed:moving/3"}, {"type": "text", "text": "Where does it go?"}`
	told := func(says string) string {
		return `{"messages": [{"role": "user", "content": [` + asked + `]}, {"role": "assistant", "content": "` + says + `"}]}`
	}
	sets := []string{"episode.tokens=4000", "episode.clips={fps=0, count=4, most_pixels=3136}"}
	plain := sfttest.Experiment(t, file("lessons.jsonl", told("left"), told("up")), sets...)
	list, _, err := List(plain)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d lessons, %v", len(list), err)
	}
	for _, c := range []struct {
		objective, row string
		group          int
	}{
		{"dpo", `{"prompt": [{"role": "user", "content": [` + asked + `]}], "chosen": "left", "rejected": "up"}`, 2},
		{"kto", `{"prompt": "Where does it go?", "videos": ["embed:moving/3"], "completion": "left", "label": true}`, 1},
	} {
		e := sfttest.Experiment(t, file(c.objective+".jsonl", c.row), append(sets, "loss.objective="+c.objective, fmt.Sprint("rollout.group=", c.group))...)
		rows, long, err := List(e)
		if err != nil || len(rows) != 1 || len(long) > 0 {
			t.Fatalf("%s: %d rows, %v too long, %v", c.objective, len(rows), long, err)
		}
		teaches := teacherOf(t, e)
		row, name, err := teaches.Row(rows[0])
		if err != nil {
			t.Fatal(err)
		}
		answers, err := teaches.Judged(row, name, c.group)
		if err != nil || len(answers) != c.group {
			t.Fatalf("%s: %d answers, %v", c.objective, len(answers), err)
		}
		for i, a := range answers {
			want, at, err := teaches.Lesson(list[i], "whole")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.IDs, want.IDs) || !slices.Equal(a.Trained, want.Trained) || a.Good != (i == 0) || !slices.Equal(a.Videos.Patches.Values, at.Videos.Patches.Values) {
				t.Errorf("%s: answer %d is %v, and as a lesson %v", c.objective, i, a.IDs, want.IDs)
			}
		}
	}
}

// TestToldFrames: where each frame comes after its time, a message's clips are written as in a rollout's text.
func TestToldFrames(t *testing.T) {
	f := &chat.Videos{Times: [][]float64{{0.3, 1.6}, {2}}}
	messages := []vlm.Message{{Role: "user", Content: []vlm.Part{{Kind: vlm.ClipPart}, {Text: "and "}, {Kind: vlm.ClipPart}, {Text: "?"}}}}
	plain, err := vlm.Qwen3VL.Render(messages, vlm.Rendering{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := f.MarkTimes(plain)
	if err != nil {
		t.Fatal(err)
	}
	told, err := f.WriteTimes(messages)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := vlm.Qwen3VL.Render(told, vlm.Rendering{}); err != nil || got != want || !strings.Contains(got, "<1.6 seconds>") {
		t.Errorf("%q, %v; %q was expected", got, err, want)
	}
	if messages[0].Content[0].Kind != vlm.ClipPart {
		t.Error("the messages themselves changed")
	}
}
