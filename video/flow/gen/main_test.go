package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCommitted: the committed assembly equals the generator's output.
func TestCommitted(t *testing.T) {
	for file, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the generator writes: run go generate ./video/flow", file)
		}
	}
}
