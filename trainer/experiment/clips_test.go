package experiment

import (
	"strings"
	"testing"
)

// TestClips: what no clip can be read by is refused with its key.
func TestClips(t *testing.T) {
	for table, want := range map[string]string{
		"fps = 0": "no frame of a clip is read", "fps = 2\ncount = 4": "says how many frames are read", "fps = 0\ncount = 4": "",
		"min = 9\nmax = 8": "at least 9 frames", "least_pixels = 9\nmost_pixels = 8": "at least 9 pixels", "least_pixels = 9": "",
	} {
		text := strings.Replace(least, `name = "jpeg"`, `name = "format"`, 1) + "[episode]\n[episode.clips]\n" + table + "\n"
		_, err := Parse("a.toml", []byte(text), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", table, err, want)
		}
	}
}
