//go:build unix

package program

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alive reports whether a process runs: one that is dead and not yet reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true // no /proc here
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// gone waits a moment for a process to die.
func gone(t *testing.T, what string, pid int) {
	t.Helper()
	for range 200 {
		if !alive(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s lives on", what)
}

// TestNothingIsLeft: neither an interpreter nor a process of its code lives after its time was up, or after Close;
// and a child that holds the pipes open does not make anybody wait.
func TestNothingIsLeft(t *testing.T) {
	for _, end := range []string{"close", "hang", "leave"} {
		o := options("says")
		s := session(t, o)
		child, err := strconv.Atoi(ran(t, s, "child").Text)
		if err != nil {
			t.Fatal(err)
		}
		if !alive(child) {
			t.Fatal("the child never lived: this test finds nothing")
		}
		if end == "close" {
			s.Close()
		} else {
			o.Timeout = 0.2
			ran(t, s, end)
		}
		gone(t, end+": the child", child)
		if end != "close" && s.process != nil {
			t.Errorf("%s: the interpreter is still there", end)
		}
	}
}
