package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/data/album"
	"github.com/darkroom-rl/darkroom/data/prompts"
)

// TestPicturesSum: the pictures of prompts and of an album count, by their bytes and not by where the folder lies; of
// files above the limit, the beginning and the length.
func TestPicturesSum(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := string(make([]byte, 3*pictureHead))
	made := func(one, two string) (dir string) {
		dir = t.TempDir()
		write(filepath.Join(dir, "in", "a.png"), one)
		write(filepath.Join(dir, "b.png"), two)
		write(filepath.Join(dir, "list.jsonl"), `{"prompt": "x", "meta": {"picture": ["in/a.png", "embed:cards/1"]}}
{"prompt": "y", "image": "b.png", "meta": {"picture": "in/a.png"}}`)
		write(filepath.Join(dir, "pairs.jsonl"), `{"prompt": "x", "a": "in/a.png", "b": "b.png", "better": "a"}`)
		return dir
	}
	sum := func(dir string, whole int64) (string, int) {
		t.Helper()
		list, err := prompts.Open(filepath.Join(dir, "list.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		s, n, err := picturesSumUpTo(whole, filepath.Join(dir, "list.jsonl"), list)
		if err != nil {
			t.Fatal(err)
		}
		return s, n
	}
	first, n := sum(made("1", long), wholePictures)
	if again, _ := sum(made("1", long), wholePictures); n != 2 || again != first {
		t.Errorf("%d files, and elsewhere another sum", n)
	}
	for name, two := range map[string]string{"beginning": "x" + long[1:], "end": long[1:] + "x", "length": long + "x"} {
		for _, whole := range []int64{wholePictures, 10} {
			before, _ := sum(made("1", long), whole)
			after, _ := sum(made("1", two), whole)
			if differs := before != after; differs != (whole > 10 || name != "end") {
				t.Errorf("%s changed, %d bytes are read whole: another sum: %v", name, whole, differs)
			}
		}
	}
	dir := made("1", "2")
	pages, err := album.Open(filepath.Join(dir, "pairs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	of := func() string {
		t.Helper()
		s, n, err := picturesSum(filepath.Join(dir, "pairs.jsonl"), []prompts.Prompt{pages[0].Prompt})
		if err != nil || n != 2 {
			t.Fatalf("%d files of an album, %v", n, err)
		}
		return s
	}
	before := of()
	if write(filepath.Join(dir, "b.png"), "3"); of() == before {
		t.Error("another picture of an album, and the same sum")
	}
	if s, n, err := picturesSum("embed:scenes", []prompts.Prompt{{Text: "x"}}); s != "" || n != 0 || err != nil {
		t.Errorf("without pictures: %q, %d, %v", s, n, err)
	}
}
