package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is a run's, held by this process.
type Folder struct {
	Dir  string
	lock *os.File
}

// Config is the file that makes a folder a run's.
const Config = "config.toml"

// ErrUsed says that the folder holds a run already.
var ErrUsed = errors.New("it holds a run already")

// Open takes a folder: a new one, or with resume one that may hold a run.
func Open(dir string, resume bool) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the run's folder cannot be made: %w\nhint: --out names another folder", err)
	}
	if !resume {
		switch _, err := os.Stat(filepath.Join(dir, Config)); {
		case err == nil:
			return nil, fmt.Errorf("%s: %w\nhint: --resume goes on with it, --out names another folder", dir, ErrUsed)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	held, err := lock(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return nil, fmt.Errorf("%s cannot be written: %w\nhint: --out names another folder", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Folder{Dir: dir, lock: held}, nil
}

// Path is a file of the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Close lets the folder go.
func (f *Folder) Close() error { return f.lock.Close() }

// Write writes a whole file aside and puts it in its place.
func (f *Folder) Write(name string, text []byte) error {
	path := f.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := path + ".part"
	err := os.WriteFile(next, text, 0o644)
	if err == nil {
		err = errors.Join(syncFile(next), os.Rename(next, path))
	}
	if err != nil {
		os.Remove(next)
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return syncDir(filepath.Dir(path))
}

// WriteJSON is Write of a value.
func (f *Folder) WriteJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return f.Write(name, append(text, '\n'))
}
