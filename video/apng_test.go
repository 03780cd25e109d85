package video

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPlays: a PNG with an animation plays, however it is called; one without, another file and a broken one do not.
func TestPlays(t *testing.T) {
	dir := t.TempDir()
	clip := &Clip{Width: 2, Height: 1, Rate: usual, Frames: [][]uint8{{1, 2, 3, 4, 5, 6}, {7, 8, 9, 1, 2, 3}}}
	var moving, still bytes.Buffer
	if err := EncodeAPNG(&moving, clip); err != nil {
		t.Fatal(err)
	}
	if err := encodePNG(&still, clip.Frames[0], 2, 1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want bool
	}{"moving.png": {moving.Bytes(), true}, "still.png": {still.Bytes(), false}, "cut.png": {moving.Bytes()[:30], false}, "text.png": {[]byte("acTL"), false}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Plays(path); got != c.want {
			t.Errorf("%s plays: %v", name, got)
		}
	}
	if Plays(filepath.Join(dir, "nowhere.png")) || Plays(dir) {
		t.Error("what is no file plays")
	}
}
