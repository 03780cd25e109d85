package golden

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestPack: a folder case comes out of its file as it went in, and a file that was cut is refused by its name.
func TestPack(t *testing.T) {
	whole := fstest.MapFS{"case.json": {Data: []byte("{}")}, "vae/config.json": {Data: []byte(strings.Repeat("a b ", 999))}, "empty.txt": {}}
	dir, cases := t.TempDir(), t.TempDir()
	file := filepath.Join(cases, "one.zip")
	if err := Pack(whole, file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cases, "plain.json"), []byte("[]"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(os.DirFS(cases), dir); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(os.DirFS(dir), "plain.json", "one/case.json", "one/vae/config.json", "one/empty.txt"); err != nil {
		t.Error(err)
	}
	for name, f := range whole {
		if text, err := os.ReadFile(filepath.Join(dir, "one", name)); err != nil || string(text) != string(f.Data) {
			t.Errorf("%s: %d bytes, not %d: %v", name, len(text), len(f.Data), err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 999 {
		t.Errorf("the file is not compressed: %v", err)
	}
	if err := Unpack(os.DirFS(cases), dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder with files: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "plain.json")); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(file, 99); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(os.DirFS(cases), t.TempDir()); err == nil || !strings.Contains(err.Error(), "one.zip: unpacking") {
		t.Errorf("a file that was cut: %v", err)
	}
}

// TestFolder: a folder of cases is written once, and again where its content changed.
func TestFolder(t *testing.T) {
	cache := t.TempDir()
	old, recent := filepath.Join(cache, "darkroom", "golden-vlm-0"), filepath.Join(cache, "darkroom", "golden-models-0")
	for dir, age := range map[string]time.Duration{old: unused + time.Hour, recent: unused / 2} {
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "case"), 0o755), os.Chtimes(dir, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	first, err := folder(cache, "vlm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a content that nobody reads is still there: %v", err)
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"tokenizer/tokenizer.json", "models/qwen2_vl_greedy/case.json"} {
		if _, err := fs.Stat(os.DirFS(first), name); err != nil {
			t.Error(err)
		}
	}
	again, err := folder(cache, "vlm")
	if err != nil || again != first {
		t.Errorf("%s, and then %s: %v", first, again, err)
	}
	before, after := fstest.MapFS{"a.zip": {Data: []byte("1")}}, fstest.MapFS{"a.zip": {Data: []byte("2")}}
	a, errA := digest(before)
	b, errB := digest(after)
	if a == b || errA != nil || errB != nil {
		t.Errorf("other contents have the digest %s: %v, %v", a, errA, errB)
	}
}

// TestFolders: every folder case is one file.
func TestFolders(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Base(name) == "case.json" {
			t.Errorf("%s: go run ./internal/golden/pack makes one file of the folder", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
