package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestForgotten: a text that was forgotten comes back from the disk with the same bits, and without a disk by
// being computed again.
func TestForgotten(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "none": ""} {
		p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{Cache: Cache{Dir: dir}})
		first, err := p.Encode("a cat", "a dog")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Remembered(), first[0].Bytes()+first[1].Bytes(); got != want || want == 0 {
			t.Errorf("%s: %d bytes are remembered, not %d", name, got, want)
		}
		p.Forget(About{Prompt: "a dog"})
		if p.Remembered() != first[1].Bytes() || p.Knows(About{Prompt: "a cat"}) != (dir != "") {
			t.Errorf("%s: %d bytes are remembered; a cat is known: %v", name, p.Remembered(), p.Knows(About{Prompt: "a cat"}))
		}
		again, err := p.Encode("a cat", "a dog")
		if err != nil {
			t.Fatal(err)
		}
		if again[1] != first[1] || !slices.Equal(again[0].States, first[0].States) || !slices.Equal(again[0].Pooled, first[0].Pooled) {
			t.Errorf("%s: other texts", name)
		}
	}
}

// TestEncodeUntil: encoding ends with its context, and a later call begins again.
func TestEncodeUntil(t *testing.T) {
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.EncodeUntil(ctx, About{Prompt: "a cat"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := p.EncodeUntil(t.Context(), About{Prompt: "a cat"}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestSweep: the texts that were not needed for the longest time go first, and other files stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		path := filepath.Join(dir, fmt.Sprintf("%d.safetensors", i))
		if err := os.WriteFile(path, make([]byte, 100), 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Duration(i+1) * time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	touch(filepath.Join(dir, "9.safetensors"))
	if err := sweep(dir, 1000); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.safetensors")); len(left) != 10 {
		t.Errorf("%d files are left of ten that have room", len(left))
	}
	if err := sweep(dir, 400); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"0.safetensors", "1.safetensors", "9.safetensors", "notes.txt"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, not %q", left, want)
	}
}

// TestBoundedCache: a pipeline's files keep to the limit, and a folder that cannot be written is done without where
// that is asked for.
func TestBoundedCache(t *testing.T) {
	dir := t.TempDir()
	p := open(t, filepath.Join(recorded, "pipe_sd3"), Options{Cache: Cache{Dir: dir, Limit: 1}})
	for _, prompt := range []string{"a", "b", "c"} {
		if _, err := p.Encode(prompt); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files in a folder of one byte", len(left))
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, can := range []bool{false, true} {
		if _, err := open(t, filepath.Join(recorded, "pipe_sd3"), Options{Cache: Cache{Dir: filepath.Join(file, "below"), Optional: can}}).Encode("a"); (err == nil) != can {
			t.Errorf("a folder below a file, optional %v: %v", can, err)
		}
	}
}
