package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Card: blobs in a folder that all machines share (NFS, Lustre), a file each under its hash. A file comes to its place
// whole, by renaming, and is held to its name when it is read, so that whoever writes the same blob twice, or dies at
// it, does no harm.
//
// Invariant (test): what is read is what was put, or ErrNoBlob.

// A FolderBlobs is Blobs in a folder.
type FolderBlobs struct{ Dir string }

// OpenShelf makes the folder where it is not there, and sees whether it can be written to.
func OpenShelf(dir string) (*FolderBlobs, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	s := &FolderBlobs{dir}
	if err == nil {
		_, err = s.Put(context.Background(), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("the folder that workers share: %w\nhint: it must be there under this name on every machine, and be written to by all of them", err)
	}
	return s, nil
}

func (s *FolderBlobs) path(name Hash) string { return filepath.Join(s.Dir, name.String()) }

// Put is Blobs'.
func (s *FolderBlobs) Put(_ context.Context, data []byte) (Blob, error) {
	b := BlobOf(data)
	next, err := os.CreateTemp(s.Dir, "coming-")
	if err != nil {
		return b, err
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), s.path(b.Hash))
	}
	if err != nil {
		return b, errors.Join(err, os.Remove(next.Name()))
	}
	return b, nil
}

// Get is Blobs'.
func (s *FolderBlobs) Get(_ context.Context, b Blob) ([]byte, error) {
	f, err := os.Open(s.path(b.Hash))
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, b.Size+1))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", b.Hash.Short(), errors.Join(ErrNoBlob, err))
	}
	return data, b.Holds(data)
}

// Drop is Blobs'.
func (s *FolderBlobs) Drop(_ context.Context, name Hash) error {
	if err := os.Remove(s.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
