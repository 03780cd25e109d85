package fleet

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestShelf: a blob is read as it was put, and a file with another content counts as missing.
func TestShelf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	s, err := OpenShelf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		name, err := s.Put(t.Context(), []byte("weights"))
		if err != nil || name != BlobOf([]byte("weights")) {
			t.Fatal(name, err)
		}
	}
	name := BlobOf([]byte("weights"))
	if data, err := s.Get(t.Context(), name); err != nil || !bytes.Equal(data, []byte("weights")) {
		t.Errorf("%q, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name.Hash.String()), []byte("weight"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), name); !errors.Is(err, ErrNoBlob) {
		t.Errorf("half a file is read: %v", err)
	}
	for range 2 {
		if err := s.Drop(t.Context(), name.Hash); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Get(t.Context(), name); !errors.Is(err, ErrNoBlob) {
		t.Errorf("it was dropped: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 { // the one by which it was tried
		t.Errorf("%d files are left", len(left))
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(file); err == nil {
		t.Error("a file is no folder")
	}
}
