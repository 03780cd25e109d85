package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestScoreToys: the embedded stand-ins of clip, aesthetic and ocr judge no picture but drawings, unless they are
// asked for by name; the table names the stand-ins.
func TestScoreToys(t *testing.T) {
	photo := filepath.Join(t.TempDir(), "photo.png")
	if err := vision.WriteFile(photo, vision.New(96, 64)); err != nil {
		t.Fatal(err)
	}
	for reward, remedy := range map[string]string{"aesthetic": "embed:tiny-clip", "clip": "embed:tiny-clip", "ocr": "--path tesseract"} {
		lines, code, said := scoreLines(t, "--reward", reward, "--prompt", `the word "CAT"`, photo)
		if code != exits.Failed || len(lines) != 1 || lines[0].Scores[reward].Value != nil || !strings.Contains(said, "64 x 64") || !strings.Contains(said, remedy) {
			t.Errorf("%s: %d, %+v, %s", reward, code, lines, said)
		}
	}
	lines, code, said := scoreLines(t, "--reward", "aesthetic", "--path", "embed:tiny-clip", photo)
	if code != 0 || lines[0].Scores["aesthetic"].Value == nil {
		t.Errorf("asked for by name: %d, %+v, %s", code, lines, said)
	}
	var out bytes.Buffer
	folder := drawScenes(t, twoScenes)
	if code := execute(t.Context(), []string{"score", "--reward", "clip,scene", folder}, strings.NewReader(""), &out, &out); code != 0 || !strings.Contains(out.String(), "CLIP (embedded toy)") || strings.Contains(out.String(), "missing") {
		t.Errorf("%d, %s", code, out.String())
	}
}
