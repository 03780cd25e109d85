package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
)

// pixels are a file's picture.
func pixels(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(m)
}

// Pictures from a file's noise are those of the noise's own seed, whatever the seed of the call.
func TestLatentsReplaceTheSeed(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(golden.Folder("models"), "pipe_flux_schnell")
	sample := func(out string, further ...string) {
		args := append([]string{"sample", "--model", model, "--prompt", "a", "--prompt", "b", "--steps", "1", "--text-length", "16", "--width", "80", "--height", "64", "--out", filepath.Join(dir, out) + "/"}, further...)
		var errs bytes.Buffer
		if code := execute(context.Background(), args, strings.NewReader(""), &bytes.Buffer{}, &errs); code != exits.Done {
			t.Fatalf("%v: %d: %s", args, code, errs.String())
		}
	}
	noise := filepath.Join(dir, "noise.safetensors")
	sample("plain", "--seed", "3")
	sample("kept", "--seed", "3", "--latents", noise)
	sample("again", "--seed", "4", "--latents", noise)
	sample("other", "--seed", "4")
	for _, name := range []string{"000.png", "001.png"} {
		want := pixels(t, filepath.Join(dir, "plain", name))
		for _, folder := range []string{"kept", "again"} {
			if pixels(t, filepath.Join(dir, folder, name)) != want {
				t.Errorf("%s/%s has other pixels", folder, name)
			}
		}
		if pixels(t, filepath.Join(dir, "other", name)) == want {
			t.Errorf("%s is the same with another seed: the test shows nothing", name)
		}
	}
}
