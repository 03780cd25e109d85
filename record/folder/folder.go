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
	Dir    string
	lock   *os.File
	opened fs.FileInfo       // of Dir
	before func(step string) // is called at every step of Save; tests end the process there
}

// Config is the file that makes a folder a run's.
const Config = "config.toml"

// Errors that a caller tells apart.
var (
	ErrUsed = errors.New("it holds a run already")
	ErrNone = errors.New("it holds no run")
	ErrGone = errors.New("the run's folder was moved or deleted while the run was under way")
)

// Open takes a folder: a new one, or with resume one that holds a run.
func Open(dir string, resume bool) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(dir, Config)); resume && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w to go on with\nhint: without --resume the run begins; --out names another folder", dir, ErrNone)
	}
	if !resume {
		if err := strangers(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the run's folder cannot be made: %w\nhint: --out names another folder", err)
	}
	if err := Own(dir); err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir}
	if err := f.hold(); err != nil {
		return nil, err
	}
	err := f.recover()
	if err == nil && !resume {
		err = f.begin()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// hold takes the lock.
func (f *Folder) hold() (err error) {
	f.lock, err = lock(filepath.Join(f.Dir, "lock"))
	switch {
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly):
		return fmt.Errorf("%s cannot be written: %w\nhint: --out names another folder", f.Dir, err)
	case err != nil:
		return fmt.Errorf("%s: %w", f.Dir, err)
	}
	if f.opened, err = os.Stat(f.Dir); err != nil {
		return errors.Join(err, f.lock.Close())
	}
	return nil
}

// Path is a file of the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Close lets the folder go.
func (f *Folder) Close() error { return f.lock.Close() }

// Here reports whether the folder is still where it was opened, and this process's. Lines that were
// appended to a deleted file would be lost without a word.
func (f *Folder) Here() error {
	now, err := os.Stat(f.Dir)
	if err != nil || !os.SameFile(now, f.opened) {
		return fmt.Errorf("%s: %w\nhint: put it back, and --resume goes on from its last checkpoint", f.Dir, ErrGone)
	}
	mine, err := f.lock.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(f.Path("lock")); err == nil && !os.SameFile(now, mine) {
		return fmt.Errorf("%s: another process has taken the run's folder\nhint: the lock file must not be deleted while a run is under way", f.Dir)
	}
	return nil
}

// step is called before each step of Save.
func (f *Folder) step(what string) {
	if f.before != nil {
		f.before(what)
	}
}

// Write writes a whole file aside and puts it in its place.
func (f *Folder) Write(name string, text []byte) error {
	if err := f.Here(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Path(name)), 0o755); err != nil {
		return err
	}
	if err := WriteFile(f.Path(name), text); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// WriteFile writes a whole file aside, syncs it, and puts it in its place. A link there, or in the place of the
// temporary file, is not followed.
func WriteFile(path string, text []byte) error {
	next := path + part
	err := os.Remove(next)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = create(next, text)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// create writes a file that is not there yet.
func create(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// WriteJSON is Write of a value.
func (f *Folder) WriteJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return f.Write(name, append(text, '\n'))
}

// Own reports entries of a run's folder that are neither files nor folders: a link, whose target would be read, cut or
// written over when a stranger's run is opened, or a pipe, on which a reader would wait. The folder itself may be
// reached by a link.
func Own(dir string) error {
	for _, below := range []string{".", "images", "checkpoints"} {
		if err := own(filepath.Join(dir, below)); err != nil {
			return err
		}
	}
	all, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, c := range all {
		if c.IsDir() && err == nil {
			err = own(filepath.Join(dir, "checkpoints", c.Name()))
		}
	}
	return err
}

// own is Own of one level; a folder that is not there has nothing foreign.
func own(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is %s: a run's folder holds files and folders alone, so that nothing beside it is read or overwritten\n"+
				"hint: replace it by the file or folder itself", filepath.Join(dir, e.Name()), kindOf(e.Type()))
		}
	}
	return nil
}

// kindOf names the kind of an entry that is neither a file nor a folder.
func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "not a file"
}

// errHeld says that another process is at work in the folder.
var errHeld = errors.New("another process is training in this folder\nhint: wait for it, or name another folder with --out")
