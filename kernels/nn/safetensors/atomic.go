package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// writeAtomic writes a file so that path names either what it named before or the
// whole new file, also after a power failure: written aside in the same folder,
// synced, renamed, and the folder synced so that the rename lasts.
func writeAtomic(path string, write func(io.Writer) error) error {
	return writeAtomicFile(path, func(f *os.File) error { return write(f) })
}

// writeAtomicFile is writeAtomic for writers of places.
func writeAtomicFile(path string, write func(*os.File) error) (err error) {
	f, err := createAside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name()) // the first error tells more
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// createAside makes a new hidden file beside path, with the permissions that the
// user's mask asks for (os.CreateTemp would let nobody else read it).
func createAside(path string) (*os.File, error) {
	folder, base := filepath.Split(path)
	for {
		name := fmt.Sprintf("%s.%s.%08x.tmp", folder, base, rand.Uint32())
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" { // has no such thing; a rename there is kept by its journal
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
