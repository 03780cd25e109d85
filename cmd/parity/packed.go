package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A folder case's weights and vocabularies may be compressed, since numbers of 16 bits that are stored in 32 take half
// the space then: NAME.gz stands for NAME.

// packed reports whether a file of a folder case stands for another. Its tensors are read as they are.
func packed(name string) bool {
	return strings.HasSuffix(name, ".gz") && name != "tensors.safetensors.gz"
}

// asRecorded is the folder with no file packed: itself, or a copy that remove deletes.
func asRecorded(dir string) (whole string, remove func(), err error) {
	found := false
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		found = found || packed(filepath.Base(path))
		return err
	})
	if err != nil || !found {
		return dir, func() {}, err
	}
	if whole, err = os.MkdirTemp("", "parity"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(whole) } // a temporary folder
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(whole, name), 0o755)
		}
		text, err := os.ReadFile(path)
		if packed(d.Name()) {
			name = strings.TrimSuffix(name, ".gz")
			text, err = read(path)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(whole, name), text, 0o600)
	})
	if err != nil {
		remove()
		return "", nil, err
	}
	return whole, remove, nil
}
