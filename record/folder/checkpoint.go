package folder

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A checkpoint is a folder of files with SHA256SUMS beside them, in the form that sha256sum -c
// reads. It is written aside, synced, and renamed: one under its name is whole. A checkpoint that was damaged later is
// skipped for the one before it.

const sums = "SHA256SUMS"

// Checkpoint is one that was found.
type Checkpoint struct {
	Dir       string
	Iteration int
}

func (f *Folder) checkpoints() string { return filepath.Join(f.Dir, "checkpoints") }

// place is where the checkpoint of an iteration lies.
func (f *Folder) place(iteration int) string {
	return filepath.Join(f.checkpoints(), fmt.Sprintf("%06d", iteration))
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

// Latest returns the newest whole checkpoint, nil without one, and the faults of newer ones.
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

// Check compares every file with its sum. A file that has none does not belong to the checkpoint, or
// its line was lost.
func (c Checkpoint) Check() error {
	listed, err := c.sums()
	if err != nil {
		return fmt.Errorf("the checkpoint of iteration %d: %w", c.Iteration, err)
	}
	names, _, err := inside(c.Dir)
	if err != nil {
		return fmt.Errorf("the checkpoint of iteration %d: %w", c.Iteration, err)
	}
	for _, name := range names {
		if listed[name] == "" && name != sums {
			return fmt.Errorf("%s has no sum in the %s beside it", filepath.Join(c.Dir, name), sums)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		switch got, err := Sum(filepath.Join(c.Dir, filepath.FromSlash(name))); {
		case err != nil:
			return fmt.Errorf("the checkpoint of iteration %d: %w", c.Iteration, err)
		case got != listed[name]:
			return fmt.Errorf("%s has changed since it was written", filepath.Join(c.Dir, name))
		}
	}
	return nil
}

// inside are the files of a checkpoint, by their paths with slashes, and the folders in it. A desktop's own files begin
// with a dot, and do not count.
func inside(dir string) (files, folders []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			folders = append(folders, path)
		default:
			files = append(files, path)
		}
		return nil
	})
	return files, folders, err
}

// sums are the files of SHA256SUMS with their sums.
func (c Checkpoint) sums() (map[string]string, error) {
	list, err := os.Open(filepath.Join(c.Dir, sums))
	if err != nil {
		return nil, err
	}
	defer list.Close()
	all, lines := map[string]string{}, bufio.NewScanner(list)
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || sum == "" || !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("%s: %q is no sum of a file beside it", list.Name(), lines.Text())
		}
		all[name] = sum
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s lists %d files", list.Name(), len(all)))
	}
	return all, nil
}

// At is the checkpoint of an iteration, if it is whole.
func (f *Folder) At(iteration int) (Checkpoint, error) {
	c := Checkpoint{f.place(iteration), iteration}
	return c, c.Check()
}
