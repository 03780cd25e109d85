package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// TestNotText: a prompt that is not UTF-8 is wrong usage, reported before anything is opened.
func TestNotText(t *testing.T) {
	const bad = "\xff  \xff a"
	out := filepath.Join(t.TempDir(), "a.png")
	for _, args := range [][]string{
		{"sample", "--model", "embed:tiny-sd3", "--prompt", bad, "--out", out},
		{"sample", "--model", "embed:tiny-sd3", "--prompt", "a", "--negative", bad, "--out", out},
		{"score", "--reward", "clip", "--prompt", bad, out},
	} {
		var said bytes.Buffer
		if code := execute(t.Context(), args, strings.NewReader(""), &said, &said); code != exits.Wrong || !strings.Contains(said.String(), "not UTF-8") {
			t.Errorf("%q: exit code %d, %s", args, code, said.String())
		}
	}
}
