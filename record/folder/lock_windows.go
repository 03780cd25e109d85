package folder

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errReadOnly says that a disk takes no writes.
const errReadOnly = windows.ERROR_WRITE_PROTECT

// lock holds a file that only one process can hold; it is let go when the process ends, however
// it ends.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		file.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, errHeld
		}
		return nil, err
	}
	return file, nil
}

// syncDir has nothing to do: folders cannot be synced here.
func syncDir(string) error { return nil }
