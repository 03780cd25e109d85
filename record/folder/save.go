package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A checkpoint is written beside its place and renamed:
//
//	NNNNNN.part    being written, or written and synced
//	NNNNNN.aside   the one that was in its place: a rollback saves an iteration anew
//	NNNNNN.old     being deleted
//
// Invariant (test): a process that is killed before or inside any step of Save leaves, to the next
// Open, the checkpoint before or the one after, whole.

const (
	part  = ".part"
	aside = ".aside"
	gone  = ".old"
)

// Keeping says which checkpoints stay.
type Keeping struct {
	Last    int                     // how many, the newest
	Held    []int                   // iterations whose checkpoints stay beside those
	Passing func(c Checkpoint) bool // one that goes as soon as there is a newer one, and counts for nothing; nil: none does
}

// Save writes the checkpoint of an iteration, whose files fill writes into the folder that it is
// given, and deletes those that are not to stay.
func (f *Folder) Save(iteration int, keep Keeping, fill func(dir string) error) error {
	if err := f.Here(); err != nil {
		return err
	}
	final := f.place(iteration)
	err := f.prepare(final+part, fill)
	if err == nil {
		err = f.replace(final)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(final+part))
		return fmt.Errorf("saving the checkpoint of iteration %d: %w\nhint: the checkpoint before it is whole; with room to write, --resume goes on from there", iteration, err)
	}
	return f.Tidy(keep)
}

// prepare writes and seals a checkpoint beside its place.
func (f *Folder) prepare(next string, fill func(dir string) error) error {
	f.step("make the folder of checkpoints")
	if err := os.MkdirAll(f.checkpoints(), 0o755); err != nil {
		return err
	}
	f.step("delete what is left of an earlier attempt")
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	f.step("make the folder beside")
	if err := os.Mkdir(next, 0o755); err != nil {
		return err
	}
	f.step("fill")
	if err := fill(next); err != nil {
		return err
	}
	f.step("seal")
	return seal(next)
}

// replace puts the prepared folder in its place; an existing one steps aside first.
func (f *Folder) replace(final string) error {
	f.step("step aside")
	if err := os.Rename(final, final+aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.step("take the place")
	if err := os.Rename(final+part, final); err != nil {
		return errors.Join(err, f.recover())
	}
	f.step("sync")
	if err := syncDir(f.checkpoints()); err != nil {
		return err
	}
	f.step("delete the one aside")
	return os.RemoveAll(final + aside)
}

// recover completes an interrupted replace: a checkpoint that stepped aside goes back to its
// place where nothing took it, and is deleted elsewhere.
func (f *Folder) recover() error {
	all, err := filepath.Glob(filepath.Join(f.checkpoints(), "[0-9]*"+aside))
	for _, old := range all {
		final := strings.TrimSuffix(old, aside)
		switch _, there := os.Lstat(final); {
		case errors.Is(there, fs.ErrNotExist):
			err = errors.Join(err, os.Rename(old, final), syncDir(f.checkpoints()))
		case there == nil:
			err = errors.Join(err, os.RemoveAll(old))
		default:
			err = errors.Join(err, there)
		}
	}
	if err != nil {
		return fmt.Errorf("putting a checkpoint back in its place: %w", err)
	}
	return nil
}

// Tidy deletes the folders that Save deletes, and those half written or half deleted at a kill.
func (f *Folder) Tidy(keep Keeping) error {
	entries, err := os.ReadDir(f.checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		kind := filepath.Ext(e.Name())
		if _, no := strconv.Atoi(strings.TrimSuffix(e.Name(), kind)); no == nil && e.IsDir() && (kind == gone || kind == part) {
			f.step("tidy")
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.checkpoints(), e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("deleting what is left of a checkpoint: %w", err)
	}
	return f.prune(keep)
}

// seal writes the sums and syncs everything.
func seal(dir string) error {
	var text strings.Builder
	names, folders, err := inside(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		sum, err := Sum(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
		if err := syncFile(path); err != nil {
			return err
		}
	}
	for _, below := range folders {
		if err := syncDir(filepath.Join(dir, below)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, sums), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return errors.Join(syncFile(filepath.Join(dir, sums)), syncDir(dir))
}

// Forget deletes the checkpoints after an iteration.
func (f *Folder) Forget(after int) error {
	all, err := f.All()
	for _, c := range all {
		if c.Iteration > after {
			err = errors.Join(err, c.remove())
		}
	}
	return err
}

// prune deletes old checkpoints. The newest always stays.
func (f *Folder) prune(keep Keeping) error {
	all, err := f.All()
	if err != nil || len(all) == 0 {
		return err
	}
	held := func(c Checkpoint) bool { return slices.Contains(keep.Held, c.Iteration) }
	stays := all[:0:0]
	for i, c := range all {
		if i < len(all)-1 && keep.Passing != nil && !held(c) && keep.Passing(c) {
			err = errors.Join(err, c.remove())
		} else {
			stays = append(stays, c)
		}
	}
	for _, c := range stays[:max(0, len(stays)-keep.Last)] {
		if !held(c) {
			err = errors.Join(err, c.remove())
		}
	}
	return err
}

// remove deletes a checkpoint: without its name first, so that a half-deleted one is not found again.
func (c Checkpoint) remove() error {
	old := c.Dir + gone
	if err := errors.Join(os.RemoveAll(old), os.Rename(c.Dir, old), os.RemoveAll(old)); err != nil {
		return fmt.Errorf("deleting a checkpoint: %w", err)
	}
	return nil
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
