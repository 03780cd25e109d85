package prompts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

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
