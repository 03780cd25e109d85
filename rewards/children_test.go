//go:build unix

package rewards

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExecLeavesNothing: a program that is a script around another is stopped with all that it started, whether it
// hangs or is closed, and without waiting for processes that hold its pipes.
func TestExecLeavesNothing(t *testing.T) {
	for _, c := range []struct{ name, after string }{{"hangs", "wait"}, {"is closed", `while read line; do echo '{"scores": [1]}'; done`}} {
		dir := t.TempDir()
		pids := filepath.Join(dir, "pids")
		script := fmt.Sprintf("sleep 600 & echo $! >%s; sleep 600 & echo $! >>%s\n%s\n", pids, pids, c.after)
		p := impatient()
		p.Tries = 1
		e, err := NewExec([]string{"/bin/sh", "-c", script}, 1, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = e.Score(t.Context(), threeItems[0])
		if hung := c.name == "hangs"; hung != (err != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		asked := time.Since(begun)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d > asked+900*time.Millisecond || asked > p.Timeout+900*time.Millisecond {
			t.Errorf("%s: asking took %v, closing %v", c.name, asked, d-asked)
		}
		text, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			for tries := 0; alive(pid); tries++ { // a killed process takes a moment to go
				if tries > 100 {
					t.Errorf("%s: process %d lives on", c.name, pid)
					_ = syscall.Kill(pid, syscall.SIGKILL)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// alive reports whether a process runs; one that only waits to be collected does not.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, after, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(after, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}
