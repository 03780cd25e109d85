package lessons

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/internal/rigs/sfttest"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
	"github.com/parquet-go/parquet-go"
)

func teacherOf(t *testing.T, e *experiment.Experiment) *Reader {
	t.Helper()
	teaches, err := NewReader(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { teaches.Close() })
	return teaches
}

// TestDrawnLessons: an embedded conversation has the tokens and the pictures of an episode in which the model writes
// the same.
func TestDrawnLessons(t *testing.T) {
	e := sfttest.Experiment(t, "embed:zoom-lessons")
	list, long, err := List(e)
	if err != nil || len(list) != 200 || len(long) > 0 {
		t.Fatalf("%d lessons, %v too long, %v", len(list), long, err)
	}
	teaches := teacherOf(t, e)
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	k, err := chat.Open(teaches.dir, chat.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, n := range []int{0, 7} {
		l, at, err := teaches.Lesson(list[n], "whole")
		if err != nil {
			t.Fatal(err)
		}
		var says []string
		for from := 0; from < len(l.IDs); from++ {
			to := from
			for to < len(l.IDs) && l.Trained[to] {
				to++
			}
			if to > from {
				says = append(says, strings.TrimSuffix(k.Tokens.DecodePlain(l.IDs[from:to]), "\n"))
				from = to
			}
		}
		album := tools.NewAlbum(at.Pictures[0])
		want := read(t, k, asText(t, k, list[n].Text), album.Pictures)
		album.Show(0, 64, 64)
		reply := tools.Darkroom().Step(&tools.State{Album: album}, says[0])
		if _, err := reply.Make(album); err != nil || len(album.Pictures) != 2 {
			t.Fatalf("%q makes %d pictures, %v", says[0], len(album.Pictures), err)
		}
		if !bytes.Equal(album.Pictures[1].Image.Pix, at.Pictures[1].Pix) {
			t.Errorf("the crop of lesson %d is not the one that its call makes", n)
		}
		want = append(want, encoded(t, k, says[0]+"<|im_end|>")...)
		want = append(want, read(t, k, reply.Observation(), album.Pictures[1:])...)
		want = append(want, encoded(t, k, says[1]+"<|im_end|>")...)
		if !slices.Equal(l.IDs[:len(want)], want) {
			t.Errorf("lesson %d is %q, and an episode %q", n, k.Tokens.Decode(l.IDs[:len(want)]), k.Tokens.Decode(want))
		}
	}
}

func asText(t *testing.T, k *chat.VLM, question string) string {
	t.Helper()
	text, err := k.Template.Render(chat.NewPrompt(question, nil).Messages, vlm.Rendering{Generate: true})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(t *testing.T, k *chat.VLM, text string, pictures []tools.Picture) []int32 {
	t.Helper()
	v := &rollout.EpisodeSampler{Policy: &rollout.Policy{VLM: k}}
	seen, err := v.Code(text, slices.Clone(pictures))
	if err != nil {
		t.Fatal(err)
	}
	return seen.Tokens
}

func encoded(t *testing.T, k *chat.VLM, text string) []int32 {
	t.Helper()
	e, err := k.Tokens.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return e.IDs
}

// A stored row is a conversation as a data set of the hub stores it.
type storedRow struct {
	Messages []storedMessage `parquet:"messages,list"`
	Images   []storedPicture `parquet:"images,list"`
	Tools    *string         `parquet:"tools,optional"`
}

type storedMessage struct {
	Role    string       `parquet:"role"`
	Content []storedPart `parquet:"content,list"`
}

type storedPart struct {
	Type string  `parquet:"type"`
	Text *string `parquet:"text,optional"`
}

type storedPicture struct {
	Bytes []byte  `parquet:"bytes,optional"`
	Path  *string `parquet:"path,optional"`
}

// storedRows are n conversations with a picture each, and the same as lines of a .jsonl beside files of pictures.
func storedRows(t *testing.T, dir string, n int) (rows []storedRow, lines []string) {
	t.Helper()
	text := func(s string) storedPart { return storedPart{"text", &s} }
	for i := range n {
		m := image.NewRGBA(image.Rect(0, 0, 64, 48+16*i))
		m.Set(i, i, color.White)
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%d.png", i)
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		question, answer := fmt.Sprintf("Which digit, %d?", i), fmt.Sprintf("<answer>%d</answer>", i)
		picture := storedPicture{Bytes: b.Bytes()}
		if i == 1 { // the picture lies beside the table
			picture = storedPicture{Path: &name}
		}
		rows = append(rows, storedRow{Messages: []storedMessage{{"user", []storedPart{{Type: "image"}, text(question)}}, {"assistant", []storedPart{text(answer)}}}, Images: []storedPicture{picture}})
		lines = append(lines, fmt.Sprintf(`{"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": %q}]}, {"role": "assistant", "content": %q}], "images": [%q]}`, question, answer, name))
	}
	return rows, lines
}

// TestLessonsOfTables: a Parquet file of conversations teaches the same as a .jsonl of them, token by token and pixel
// by pixel; its rows stay in the file, and one that has changed is refused.
func TestLessonsOfTables(t *testing.T) {
	dir := t.TempDir()
	rows, lines := storedRows(t, dir, 4)
	table, plain := filepath.Join(dir, "lessons.parquet"), filepath.Join(dir, "lessons.jsonl")
	if err := parquet.WriteFile(table, rows); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func(name string) (*Reader, []prompts.Prompt) {
		e := sfttest.Experiment(t, name)
		list, _, err := List(e)
		if err != nil || len(list) != len(rows) {
			t.Fatalf("%s: %d lessons, %v", name, len(list), err)
		}
		return teacherOf(t, e), list
	}
	one, of := open(table)
	other, same := open(plain)
	for i := range rows {
		if raw, _, ok := of[i].Lesson(); raw != "" || !ok || of[i].Text != same[i].Text {
			t.Errorf("row %d: %q in memory, question %q", i, raw, of[i].Text)
		}
		a, at, err := one.Lesson(of[i], "whole")
		if err != nil {
			t.Fatal(err)
		}
		b, want, err := other.Lesson(same[i], "whole")
		if err != nil || !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Trained, b.Trained) || len(at.Pictures) != 1 || !bytes.Equal(at.Pictures[0].Pix, want.Pictures[0].Pix) {
			t.Errorf("row %d differs: %v and %v, %v", i, a.IDs, b.IDs, err)
		}
	}
	changed := slices.Clone(rows)
	changed[2] = rows[3]
	if err := parquet.WriteFile(table, changed); err != nil {
		t.Fatal(err)
	}
	later := teacherOf(t, sfttest.Experiment(t, table))
	if _, _, err := later.Lesson(of[2], "whole"); err == nil || !strings.Contains(err.Error(), "row 3 has changed") {
		t.Errorf("a row that changed: %v", err)
	}
}

// TestCountedOnce: counts are kept by their inputs, and a file that changes is counted anew.
func TestCountedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lessons.jsonl")
	row := `{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "<answer>1</answer>"}]}`
	write := func(text string) {
		if err := os.WriteFile(file, fmt.Appendf(nil, row, text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	counts := func() (kept string, all []rowCount) {
		e := teacherOf(t, sfttest.Experiment(t, file))
		f, err := e.file(file)
		if err != nil {
			t.Fatal(err)
		}
		if all, err = e.counts(f, experiment.Lessons{Mask: "whole"}); err != nil {
			t.Fatal(err)
		}
		return e.countsFile(f, experiment.Lessons{Mask: "whole"}), all
	}
	write("one")
	kept, first := counts()
	t.Cleanup(func() { os.Remove(kept) })
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, bytes.ReplaceAll(text, fmt.Appendf(nil, `"tokens":%d`, first[0].Tokens), []byte(`"tokens":9999`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, again := counts(); again[0].Tokens != 9999 {
		t.Errorf("the row was counted again: %d tokens", again[0].Tokens)
	}
	if err := os.WriteFile(kept, []byte("["), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, again := counts(); again[0].Tokens != first[0].Tokens {
		t.Errorf("counts that cannot be read: %d tokens, want %d", again[0].Tokens, first[0].Tokens)
	}
	write("one and two")
	anew, changed := counts()
	t.Cleanup(func() { os.Remove(anew) })
	if anew == kept || changed[0].Tokens <= first[0].Tokens {
		t.Errorf("a file that changed has %d tokens, and had %d", changed[0].Tokens, first[0].Tokens)
	}
}
