//go:build unix

package prompts

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: what is no file is not waited for.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}
