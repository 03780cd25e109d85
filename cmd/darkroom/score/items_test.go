package score

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// TestShown: the pictures of a line with a reply are those that its conversation shows.
func TestShown(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := vision.EncodePNG(f, vision.New(5, 4)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	s, err := readItem([]byte(`{"prompt": "where?", "image": "a.png", "turns": [{"text": "[0, 0, 5, 4]"}]}`), filepath.Join(dir, "items.jsonl"))
	if err != nil || len(s.item.Transcript.Shown) != 1 || s.item.Transcript.Shown[0].Width != 5 {
		t.Errorf("%+v, %v", s.item.Transcript, err)
	}
	if s, err = readItem([]byte(`{"prompt": "where?", "turns": [{"text": "here"}]}`), filepath.Join(dir, "items.jsonl")); err != nil || s.item.Transcript.Shown != nil {
		t.Errorf("%+v, %v", s.item.Transcript, err)
	}
}
