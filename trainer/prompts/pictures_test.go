package prompts

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// TestQuestions: the embedded lists are about different tables, and say what is right.
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
