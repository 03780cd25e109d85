package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Room reports whether the folder can be written, and has the needed bytes free, before anything is computed that could
// not be kept. Where the system does not report free space, it only writes.
func (f *Folder) Room(need int64) error {
	path := f.Path("writable.part")
	err := os.WriteFile(path, []byte("this file is of no use\n"), 0o644)
	if err = errors.Join(err, os.Remove(path)); err != nil {
		return fmt.Errorf("%s cannot be written: %w\nhint: --out names another folder", f.Dir, err)
	}
	if free, ok := freeBytes(f.Dir); ok && free < need {
		return fmt.Errorf("%s has %s free, and the checkpoints take %s\nhint: free some, keep fewer (checkpoint.keep), or name a folder elsewhere with --out", filepath.Clean(f.Dir), megabytes(free), megabytes(need))
	}
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
