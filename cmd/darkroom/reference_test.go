package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestReference: docs/config.md is what the program would write, and every key has its sentence.
func TestReference(t *testing.T) {
	var want bytes.Buffer
	writeReference(&want)
	got, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want.Bytes()) {
		t.Error("docs/config.md is of other keys: write it with 'go generate ./cmd/darkroom'")
	}
	e := experiment.Default()
	for _, k := range config.Keys(&e) {
		if k.Doc == "" && !k.Table {
			t.Errorf("%s has no sentence", k.Path)
		}
		if name := strings.TrimPrefix(k.Path, config.Parent(k.Path)+"."); !k.Table && !bytes.Contains(want.Bytes(), []byte("| `"+name+"` |")) {
			t.Errorf("%s is not in the reference", k.Path)
		}
	}
}
