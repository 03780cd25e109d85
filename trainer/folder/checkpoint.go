package folder

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A checkpoint is a folder of files with SHA256SUMS beside them, in the form that sha256sum -c
// reads. It is written aside, synced, and renamed: one that stands is whole. One that has been
// spoilt since is passed over for the one before it.

const sums = "SHA256SUMS"

// Checkpoint is one that was found.
type Checkpoint struct {
	Dir       string
	Iteration int
}

func (f *Folder) checkpoints() string { return filepath.Join(f.Dir, "checkpoints") }

// Save writes the checkpoint of an iteration, whose files fill writes into the folder that it is
// given, and deletes older ones than the last keep, but for those that are held.
func (f *Folder) Save(iteration, keep int, held []int, fill func(dir string) error) error {
	root := f.checkpoints()
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	final := filepath.Join(root, fmt.Sprintf("%06d", iteration))
	next := final + ".part"
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	err := os.Mkdir(next, 0o755)
	if err == nil {
		err = fill(next)
	}
	if err == nil {
		err = seal(next)
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(final), os.Rename(next, final), syncDir(root))
	}
	if err != nil {
		os.RemoveAll(next)
		return fmt.Errorf("saving the checkpoint of iteration %d: %w\nhint: the run stands at the checkpoint before; with room to write, --resume goes on from there", iteration, err)
	}
	return f.Tidy(keep, held)
}

// Tidy deletes what Save deletes, and what a kill left half written or half deleted.
func (f *Folder) Tidy(keep int, held []int) error {
	entries, err := os.ReadDir(f.checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		kind := filepath.Ext(e.Name())
		if _, no := strconv.Atoi(strings.TrimSuffix(e.Name(), kind)); no == nil && e.IsDir() && (kind == ".old" || kind == ".part") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.checkpoints(), e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("deleting what is left of a checkpoint: %w", err)
	}
	return f.prune(keep, held)
}

// seal writes the sums and syncs everything.
func seal(dir string) error {
	var text strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		sum, err := Sum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, e.Name())
		if err := syncFile(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, sums), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return errors.Join(syncFile(filepath.Join(dir, sums)), syncDir(dir))
}

// Sum is the SHA-256 of a file.
func Sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// All are the checkpoints by their names, oldest first; nothing of them is checked.
func (f *Folder) All() ([]Checkpoint, error) {
	entries, err := os.ReadDir(f.checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Checkpoint
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && e.IsDir() && n >= 0 {
			all = append(all, Checkpoint{filepath.Join(f.checkpoints(), e.Name()), n})
		}
	}
	slices.SortFunc(all, func(a, b Checkpoint) int { return a.Iteration - b.Iteration })
	return all, nil
}

// Latest is the newest checkpoint that is whole, nil where there is none, and what is wrong with
// newer ones.
func (f *Folder) Latest() (c *Checkpoint, spoilt []error, err error) {
	all, err := f.All()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range slices.Backward(all) {
		if err := c.Check(); err != nil {
			spoilt = append(spoilt, err)
			continue
		}
		return &c, spoilt, nil
	}
	return nil, spoilt, nil
}

// Check compares every file with its sum.
func (c Checkpoint) Check() error {
	list, err := os.Open(filepath.Join(c.Dir, sums))
	if err != nil {
		return fmt.Errorf("the checkpoint of iteration %d: %w", c.Iteration, err)
	}
	defer list.Close()
	lines, files := bufio.NewScanner(list), 0
	for lines.Scan() {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("%s: %q is no sum of a file beside it", list.Name(), lines.Text())
		}
		switch got, err := Sum(filepath.Join(c.Dir, name)); {
		case err != nil:
			return fmt.Errorf("the checkpoint of iteration %d: %w", c.Iteration, err)
		case got != want:
			return fmt.Errorf("%s has changed since it was written", filepath.Join(c.Dir, name))
		}
		files++
	}
	if err := lines.Err(); err != nil || files == 0 {
		return errors.Join(err, fmt.Errorf("%s lists %d files", list.Name(), files))
	}
	return nil
}

// At is the checkpoint of an iteration, if it is whole.
func (f *Folder) At(iteration int) (Checkpoint, error) {
	c := Checkpoint{filepath.Join(f.checkpoints(), fmt.Sprintf("%06d", iteration)), iteration}
	return c, c.Check()
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

// prune deletes all but the last keep, and those that are held.
func (f *Folder) prune(keep int, held []int) error {
	all, err := f.All()
	if err != nil {
		return err
	}
	for _, c := range all[:max(0, len(all)-keep)] {
		if slices.Contains(held, c.Iteration) {
			continue
		}
		if err := c.remove(); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a checkpoint: without its name first, so that what is half deleted is not found
// again.
func (c Checkpoint) remove() error {
	gone := c.Dir + ".old"
	if err := errors.Join(os.RemoveAll(gone), os.Rename(c.Dir, gone), os.RemoveAll(gone)); err != nil {
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
