package video

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestContainers: no two containers have a name, an ending or first bytes in common, each has one reader, and files of
// the program's own encoders are recognised by their first bytes.
func TestContainers(t *testing.T) {
	c := moving(6, 5, 3)
	var endings, names []string
	for i, k := range Containers() {
		if k.Name == "" || k.Card == "" || k.Magic == "" || k.At+len(k.Magic) > headBytes || (k.Decode == nil) == (k.FFmpeg == "") {
			t.Errorf("%+v", k)
		}
		if k.Encode != nil && len(k.Endings) == 0 {
			t.Errorf("%s is written, and has no ending", k.Name)
		}
		for _, ending := range k.Endings {
			if !strings.HasPrefix(ending, ".") || ending != strings.ToLower(ending) || slices.Contains(endings, ending) {
				t.Errorf("%s: ending %q", k.Name, ending)
			}
		}
		if slices.Contains(names, k.Name) {
			t.Errorf("two containers are called %s", k.Name)
		}
		names, endings = append(names, k.Name), append(endings, k.Endings...)
		head := append(make([]byte, k.At), k.Magic...)
		if got, ok := containerOf(head); !ok || got.Name != k.Name {
			t.Errorf("container %d, %s: its first bytes are those of %q", i, k.Name, got.Name)
		}
		if k.Encode == nil {
			continue
		}
		var file bytes.Buffer
		if err := k.Encode(&file, c); err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(file.Bytes(), Limits{}); err != nil || len(got.Frames) != len(c.Frames) {
			t.Errorf("%s: %v, %v", k.Name, got, err)
		}
		for what, l := range map[string]Limits{"a frame's pixels": {Pixels: 29}, "frames": {Frames: 2}, "all pixels": {Total: 89}} {
			if _, err := Decode(file.Bytes(), l); err == nil {
				t.Errorf("%s: a clip beyond the limit of %s was read", k.Name, what)
			}
		}
	}
	for path, want := range map[string]bool{"a.GIF": true, "b/c.mp4": true, "a.webm": true, "a.flv": false, "a.jpg": false, "none.png": false, "a": false} {
		if got := Named(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
