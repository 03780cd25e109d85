package folder_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
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

// TestTailBounds: a line that no run writes is named, costs no more than a line may, and those behind it are read.
func TestTailBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 300 {
		if _, err := file.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.WriteString("\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	tail := folder.Tail{Path: path}
	var got []string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = tail.Next(func() {}, func(line []byte) error {
		got = append(got, string(line))
		return nil
	})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), ":1: a line of more than") || !slices.Equal(got, []string{"two"}) {
		t.Errorf("%v, %.20q", err, got)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 400 { // growing by steps
		t.Errorf("a line of 300 MiB took %d MiB in all", took)
	}
}
