package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// borrowed are parts that a model has from another one: stored once, and laid into the folders of both.
var borrowed = []struct{ model, part, of string }{{"tiny-kontext", "vae", "tiny-sd3/vae"}}

// A model is the files of an embedded folder, in order. Those whose names end in .gz are compressed, where weights are
// mostly zeros or many.
type model []file

type file struct {
	name string // below the model's folder, with slashes
	data []byte
}

// modelNamed returns the model of a folder's name, with the files that it borrows.
func modelNamed(base string) (model, error) {
	if base == "" || base == "." || strings.ContainsAny(base, `/\`) {
		return nil, fs.ErrNotExist
	}
	m, err := filesBelow(models, base, "")
	for _, b := range borrowed {
		if b.model == base && err == nil {
			var more model
			more, err = filesBelow(models, b.of, b.part)
			m = append(m, more...)
		}
	}
	if err != nil {
		return nil, err
	}
	return m.opened()
}

// filesBelow are the files of a folder, under another one's name.
func filesBelow(tree fs.FS, dir, under string) (m model, err error) {
	err = fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		data, err := fs.ReadFile(tree, name)
		if err == nil {
			m = append(m, file{path.Join(under, strings.TrimPrefix(name, dir+"/")), data})
		}
		return err
	})
	return m, err
}

// opened are files of which those that were compressed are as they were before.
func (m model) opened() (model, error) {
	for i, f := range m {
		name, ok := strings.CutSuffix(f.name, ".gz")
		if !ok {
			continue
		}
		from, err := gzip.NewReader(bytes.NewReader(f.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		m[i] = file{name, data}
	}
	return m, nil
}

// digest is of all names and contents.
func (m model) digest() string {
	h := sha256.New()
	for _, f := range m {
		fmt.Fprintf(h, "%s %d\n", f.name, len(f.data))
		h.Write(f.data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// same reports whether a folder holds the model's files, byte for byte, and nothing else: a file more
// could be read in the place of another.
func (m model) same(dir string) bool {
	there, err := filesBelow(os.DirFS(dir), ".", "")
	if err != nil || len(there) != len(m) {
		return false
	}
	found := map[string][]byte{}
	for _, f := range there {
		found[f.name] = f.data
	}
	for _, f := range m {
		if data, ok := found[f.name]; !ok || !bytes.Equal(data, f.data) {
			return false
		}
	}
	return true
}

// write writes the files beside the folder, and then puts them in its place, so that nobody sees a part
// of them. Of several who do so at once one wins, and all have written the same.
func (m model) write(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next)
	err = os.Chmod(next, 0o755)
	for _, f := range m {
		to := filepath.Join(next, filepath.FromSlash(f.name))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, f.data, 0o644))
		}
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(next, dir); err != nil && !m.same(dir) {
		return err
	}
	return nil
}
