//go:build unix

package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRead: a file of the limit is read; a longer one, a pipe, a device and a folder are refused at once.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, []byte("12345"), 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(file, 5); string(data) != "12345" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	for _, c := range []struct {
		path string
		is   error
		says string
	}{
		{file, ErrLarge, "5 bytes"}, {pipe, ErrIrregular, "a pipe"}, {"/dev/zero", ErrIrregular, "a device"},
		{dir, ErrIrregular, "a folder"}, {filepath.Join(dir, "none"), os.ErrNotExist, "none"},
	} {
		begun := time.Now()
		data, err := Read(c.path, 4)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) || data != nil || time.Since(begun) > 5*time.Second {
			t.Errorf("%s: %q, %v", c.path, data, err)
		}
	}
}

// TestReadWithoutSize: a file that says no size, as those of the kernel do, is held to the limit as well.
func TestReadWithoutSize(t *testing.T) {
	const kernel = "/proc/self/status"
	if _, err := os.Stat(kernel); err != nil {
		t.Skip("no files without a size here:", err)
	}
	if data, err := Read(kernel, 1<<20); len(data) == 0 || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := Read(kernel, 10); !errors.Is(err, ErrLarge) {
		t.Error(err)
	}
}
