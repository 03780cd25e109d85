//go:build unix

package prompts

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: a named pipe is refused without a wait.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}
