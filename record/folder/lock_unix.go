//go:build unix

package folder

import (
	"errors"
	"os"
	"syscall"
)

// errReadOnly says that a disk takes no writes.
const errReadOnly = syscall.EROFS

// lock holds a file that only one process can hold; it is let go when the process ends, however
// it ends.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, err
	}
	return file, nil
}

// syncDir makes renames in a folder last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
