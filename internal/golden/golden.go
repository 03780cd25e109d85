// Package golden opens recorded cases of published implementations; README.md describes them. A case that is a folder
// is one file here, NAME.zip: models have many small files, and their weights compress. It imports nothing of the
// program, so every package's tests may read cases. Command pack writes such files.
package golden

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Ending is that of a folder case in one file.
const Ending = ".zip"

// Folder returns a folder of cases as they were recorded, for tests: every NAME.zip below it is the folder NAME. dir is
// relative to this package, such as "models". The folder is written below the user's cache once for its content, and
// is read only; contents that no test has read for a month are removed. It panics where the repository is not around the
// test, or the cache cannot be written.
func Folder(dir string) string {
	read, _ := made.LoadOrStore(dir, sync.OnceValues(func() (string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		return folder(cache, dir)
	}))
	at, err := read.(func() (string, error))()
	if err != nil {
		panic(fmt.Errorf("golden: %s: %w\nhint: the folder of caches must be writable; XDG_CACHE_HOME names another", dir, err))
	}
	return at
}

// made are the folders that were asked for: each is looked for once in a program.
var made sync.Map // of func() (string, error)

// unused is the time after which contents that no test reads are removed: trees of other commits may read them today.
const unused = 30 * 24 * time.Hour

// folder is Folder below a cache.
func folder(cache, dir string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cases := os.DirFS(filepath.Join(root, "internal", "golden", filepath.FromSlash(dir)))
	name, err := digest(cases)
	if err != nil {
		return "", err
	}
	made := filepath.Join(cache, "darkroom", "golden-"+path.Base(dir)+"-"+name)
	now := time.Now()
	if info, err := os.Stat(made); err == nil {
		if now.Sub(info.ModTime()) > 24*time.Hour {
			err = os.Chtimes(made, now, now)
		}
		return made, err
	}
	if err := os.MkdirAll(filepath.Dir(made), 0o755); err != nil {
		return "", err
	}
	next, err := os.MkdirTemp(filepath.Dir(made), "golden-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(next)
	if err := errors.Join(os.Chmod(next, 0o755), Unpack(cases, next)); err != nil {
		return "", err
	}
	if err := os.Rename(next, made); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		return "", err
	}
	return made, removeUnused(filepath.Dir(made), now)
}

// removeUnused removes contents that no test has read for that time.
func removeUnused(cache string, now time.Time) error {
	old, err := filepath.Glob(filepath.Join(cache, "golden-*"))
	for _, dir := range old {
		if info, at := os.Stat(dir); at == nil && now.Sub(info.ModTime()) > unused {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// repository is the folder with go.mod around the working directory, which is a package's in its tests.
func repository() (string, error) {
	at, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if filepath.Dir(at) == at {
			return "", errors.New("there is no go.mod in the working directory or above")
		}
		at = filepath.Dir(at)
	}
	return "", err
}

// digest is of the names and contents of a folder.
func digest(cases fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(cases, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(cases, name)
		fmt.Fprintf(sum, "%s %d\n", name, len(text))
		sum.Write(text)
		return err
	})
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), err
}

// Unpack writes a folder of cases to dir, which is new or empty, with folders for the files that end in .zip.
func Unpack(cases fs.FS, dir string) error {
	there, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(there) > 0:
		return fmt.Errorf("%s is not empty (%s); cases are unpacked to a new or empty folder\nhint: remove it, or name another", dir, there[0].Name())
	}
	return fs.WalkDir(cases, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := fs.ReadFile(cases, name)
		if err != nil {
			return err
		}
		if whole, ok := strings.CutSuffix(to, Ending); ok {
			return UnpackCase(name, text, whole)
		}
		return os.WriteFile(to, text, 0o444)
	})
}

// UnpackCase writes a folder case, of which text is the file and name the file's name, to dir, which is new or empty.
func UnpackCase(name string, text []byte, dir string) error {
	files, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return fmt.Errorf("%s: unpacking: %w", name, err)
	}
	return nil
}

// Pack writes a folder case to a file: the same bytes for the same folder.
func Pack(dir fs.FS, file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := zip.NewWriter(f)
	z.RegisterCompressor(zip.Deflate, smallest)
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	return errors.Join(err, z.Close())
}

func smallest(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) }
