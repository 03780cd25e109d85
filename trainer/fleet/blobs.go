package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Hash is the SHA-256 of some content, by which it is named.
type Hash [sha256.Size]byte

// HashOf is that of data.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// String is the whole hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is enough of it for people.
func (h Hash) Short() string { return hex.EncodeToString(h[:4]) }

// A Blob is content by its hash, and its size: nobody who brings it moves or holds more than that.
type Blob struct {
	Hash Hash  `json:"hash"`
	Size int64 `json:"size"`
}

// BlobOf is that of data.
func BlobOf(data []byte) Blob { return Blob{HashOf(data), int64(len(data))} }

// Holds refuses data that are not the blob's.
func (b Blob) Holds(data []byte) error {
	if int64(len(data)) != b.Size || HashOf(data) != b.Hash {
		return fmt.Errorf("fetching %s: it has another content: %w", b.Hash.Short(), ErrNoBlob)
	}
	return nil
}

// slowest is the least speed of a wire, in bytes a second.
const slowest = 256 << 10

// Limit is how long the blob may take on its way, at the least speed of a wire.
func (b Blob) Limit() time.Duration {
	return 30*time.Second + time.Duration(max(b.Size, 0)/slowest)*time.Second
}

// MarshalText is for JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is MarshalText's way back.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("a hash has %d hexadecimal digits, and this has %d", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Card: blobs in a folder that all machines share (NFS, Lustre), a file each under its hash. A file is renamed to its
// place when it is whole, and its hash is checked when it is read, so that writing the same blob twice, or dying at
// it, does no harm.
//
// Invariant (test): a blob is read as it was put, or ErrNoBlob.

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
