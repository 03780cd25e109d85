package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCommitted regenerates the assembly and compares it with the committed one.
func TestCommitted(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes: run go generate ./kernels/cpu/gemm", name)
		}
	}
}
