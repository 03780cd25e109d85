package prompts

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// TestQuestions: the embedded lists are about different tables, and have the right answers.
func TestQuestions(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"embed:zoom", "embed:zoom-heldout"} {
		list, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range list {
			var target [4]int
			var answer, picture string
			for key, into := range map[string]any{"target": &target, "answer": &answer, "picture": &picture} {
				if err := json.Unmarshal(p.Meta.Map()[key], into); err != nil {
					t.Fatal(err)
				}
			}
			if seen[picture] || len(answer) != 1 || target[2] > cards.Side || target[0] >= target[2] {
				t.Fatalf("%s, %d: %q %q %v", name, i, picture, answer, target)
			}
			seen[picture] = true
		}
		all, err := list[0].Pictures("")
		if err != nil || len(all) != 1 || all[0].Width != cards.Side {
			t.Errorf("%d pictures (%v)", len(all), err)
		}
	}
}

// TestPictures: files below the prompts' folder, one or several, and no others.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := vision.EncodePNG(f, vision.New(3, 2)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for meta, want := range map[string]int{`"a.png"`: 1, `["a.png", "a.png"]`: 2, `[]`: 0} {
		all, err := Prompt{Meta: Meta(`{"picture": ` + meta + `}`)}.Pictures(dir)
		if err != nil || len(all) != want {
			t.Errorf("%s: %d pictures (%v)", meta, len(all), err)
		}
	}
	for meta, want := range map[string]string{`"../a.png"`: "below", `"/a.png"`: "below", `7`: "name", `"b.png"`: "b.png", `"embed:cards/-1"`: "from 0", `"embed:cards/x"`: "from 0"} {
		if _, err := (Prompt{Meta: Meta(`{"picture": ` + meta + `}`)}).Pictures(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", meta, err)
		}
	}
	outside := filepath.Join(t.TempDir(), "secret.png")
	if err := errors.Join(os.Rename(filepath.Join(dir, "a.png"), outside), os.Symlink(outside, filepath.Join(dir, "a.png")), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "there"))); err != nil {
		t.Fatal(err)
	}
	for _, meta := range []string{`"a.png"`, `"there/secret.png"`} {
		p := Prompt{Meta: Meta(`{"picture": ` + meta + `}`)}
		if _, err := p.Pictures(dir); err == nil || !strings.Contains(err.Error(), "link") || p.HasPictures(dir) == nil {
			t.Errorf("%s, a link out of the folder: %v", meta, err)
		}
	}
	if all, err := (Prompt{}).Pictures(dir); err != nil || all != nil {
		t.Errorf("%v %v", all, err)
	}
}

// TestShownPictures: a question's row names its pictures as image, as images, or in its meta, whichever file it is
// read from; names in two places are refused.
func TestShownPictures(t *testing.T) {
	dir := t.TempDir()
	for name, width := range map[string]int{"a.png": 3, "b.png": 5} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(vision.EncodePNG(f, vision.New(width, 2)), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name, text string) ([]Prompt, error) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return Open(path)
	}
	for _, c := range []struct {
		file, text string
		widths     []int
	}{
		{"a.jsonl", `{"prompt": "Which?", "image": "a.png"}`, []int{3}},
		{"a.jsonl", `{"prompt": "Which?", "image": ["b.png", "a.png"], "meta": {"answer": "4"}}`, []int{5, 3}},
		{"a.jsonl", `{"prompt": "Which?", "images": ["a.png", "b.png"]}`, []int{3, 5}},
		{"a.jsonl", `{"prompt": "Which?", "meta": {"images": ["a.png"]}}`, []int{3}},
		{"a.jsonl", `{"prompt": "Which?", "image": "a.png", "meta": {"picture": "b.png"}}`, []int{5}},
		{"a.csv", "prompt,image\nWhich?,b.png\n", []int{5}},
		{"a.jsonl", `{"prompt": "Which?", "images": []}`, nil},
	} {
		list, err := open(c.file, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		all, err := list[0].Pictures(dir)
		var widths []int
		for _, m := range all {
			widths = append(widths, m.Width)
		}
		if err != nil || !slices.Equal(widths, c.widths) || list[0].HasPictures(dir) != nil {
			t.Errorf("%s: pictures of widths %v, want %v (%v)", c.text, widths, c.widths, err)
		}
	}
	if _, err := open("a.jsonl", `{"prompt": "Which?", "image": "a.png", "images": ["b.png"]}`); err == nil || !strings.Contains(err.Error(), "a.jsonl:1: it has both image and images") {
		t.Errorf("both: %v", err)
	}
	list, err := open("a.jsonl", `{"prompt": "Which?", "images": ["c.png"]}`)
	if err != nil || list[0].HasPictures(dir) == nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A record names the pictures that one is made of by a file's name or a list, and is written as it was read.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.png", "b.png"} {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := vision.EncodePNG(file, vision.New(3+i, 2)); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	lines := []string{`{"prompt":"make it red","image":"a.png"}`, `{"prompt":"join them","image":["b.png","a.png"]}`, `{"prompt":"a cat"}`}
	list, err := records(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int{{3}, {4, 3}, nil} {
		all, err := list[i].OpenSources(dir)
		if err != nil {
			t.Fatal(err)
		}
		var widths []int
		for _, m := range all {
			widths = append(widths, m.Width)
		}
		if !slices.Equal(widths, want) {
			t.Errorf("%s: pictures %v wide", lines[i], widths)
		}
		if text, err := json.Marshal(list[i]); err != nil || string(text) != lines[i] {
			t.Errorf("written as %s (%v)", text, err)
		}
	}
	gone := Prompt{Image: Images{"a.png", "c.png"}}
	if err := gone.HasSources(dir); err == nil || !strings.Contains(err.Error(), "c.png") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := (Prompt{Image: Images{"../a.png"}}).HasSources(filepath.Join(dir, "inner")); err == nil {
		t.Error("a file outside the folder was taken")
	}
}

// An image that is not a name is a mistake of its line.
func TestImagesRefused(t *testing.T) {
	for _, bad := range []string{`7`, `""`, `["a.png", " "]`, `{"a": 1}`, `["` + strings.Repeat(`x", "`, mostImages) + `y"]`} {
		_, err := records("{\"prompt\": \"a cat\"}\n{\"prompt\": \"make it red\", \"image\": " + bad + "}")
		if err == nil || !strings.HasPrefix(err.Error(), "2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A table's pictures are sources of edits: those that a column image names, or those beside the prompt. The picture of
// a question is not a source.
func TestSourcesOfTables(t *testing.T) {
	for _, c := range []struct {
		meta Meta
		want []string
	}{
		{`{"image": "a.png"}`, []string{"a.png"}},
		{`{"image": ["a.png", "b.png"], "picture": ["parquet:t.parquet#0/x"]}`, []string{"a.png", "b.png"}},
		{`{"picture": ["parquet:t.parquet#3/image"]}`, []string{"parquet:t.parquet#3/image"}},
		{`{"picture": "a.png", "image": 4}`, nil},
	} {
		if got := (Prompt{Meta: c.meta}).Sources(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v", c.meta, got)
		}
	}
}
