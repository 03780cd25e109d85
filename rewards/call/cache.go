package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// A Cache keeps answers in a folder, one file each, named by the hash of the request. A file begins with that hash
// and the answer's own, so that a torn or foreign one is not believed. Several processes may share a folder.
type Cache struct{ dir string }

// OpenCache uses a folder, and makes it if it is not there.
func OpenCache(dir string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the cache of answers: %w", err)
	}
	return &Cache{dir}, nil
}

func (c *Cache) place(request []byte) (path string, head []byte) {
	sum := sha256.Sum256(request)
	name := hex.EncodeToString(sum[:])
	return filepath.Join(c.dir, name[:2], name[2:]), sum[:]
}

// get finds an answer. A nil cache remembers nothing.
func (c *Cache) get(request []byte) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	path, head := c.place(request)
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 2*sha256.Size || !bytes.Equal(data[:sha256.Size], head) {
		return nil, false
	}
	reply := data[2*sha256.Size:]
	sum := sha256.Sum256(reply)
	return reply, bytes.Equal(data[sha256.Size:2*sha256.Size], sum[:])
}

// put remembers an answer: written aside and renamed, so that it is there whole or not at all.
func (c *Cache) put(request, reply []byte) error {
	if c == nil {
		return nil
	}
	path, head := c.place(request)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("the cache of answers: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return fmt.Errorf("the cache of answers: %w", err)
	}
	sum := sha256.Sum256(reply)
	_, err = f.Write(bytes.Join([][]byte{head, sum[:], reply}, nil))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is of no use
		return fmt.Errorf("the cache of answers: %w", err)
	}
	return nil
}
