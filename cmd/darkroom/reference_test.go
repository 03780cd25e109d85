package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestPages: the files of docs are the program's output.
func TestPages(t *testing.T) {
	for _, p := range pages() {
		var want bytes.Buffer
		p.write(&want)
		got, err := os.ReadFile("../../docs/" + p.file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want.Bytes()) {
			t.Errorf("docs/%s is of other %s: write it with 'go generate ./cmd/darkroom'", p.file, p.kind)
		}
	}
}

// TestReference: every key has its sentence.
func TestReference(t *testing.T) {
	var want bytes.Buffer
	writeReference(&want)
	e := experiment.Default()
	for _, k := range experiment.Keys(&e) {
		if k.Doc == "" && !k.Table {
			t.Errorf("%s has no sentence", k.Path)
		}
		if name := strings.TrimPrefix(k.Path, config.Parent(k.Path)+"."); !k.Table && !bytes.Contains(want.Bytes(), []byte("| `"+name+"` |")) {
			t.Errorf("%s is not in the reference", k.Path)
		}
	}
}
