package folder_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// TestTail: lines come once, torn ones when they are whole, and all again where the file was cut back, even if it is
// longer by now.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	tail := folder.Tail{Path: path}
	var got []string
	next := func(want ...string) {
		t.Helper()
		if _, err := tail.Next(func() { got = append(got[:0], "anew") }, func(line []byte) error {
			got = append(got, string(line))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, not %q", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	next()
	write("one\ntwo\nth")
	next("one", "two")
	next("one", "two")
	write("one\ntwo\nthree\n")
	next("one", "two", "three")
	write("one\n")
	next("anew", "one")
	write("one\n2\n3\n4\n")
	next("anew", "one", "2", "3", "4")
	write("one\nTWO\nthree\nfour\nfive\n")
	next("anew", "one", "TWO", "three", "four", "five")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next("anew")
}
