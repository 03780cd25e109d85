//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangup: a terminal that goes away ends a command as Ctrl-C does; under nohup it goes on.
func TestHangup(t *testing.T) {
	for _, c := range []struct {
		name, before string
		signals      []os.Signal // the last one ends it
	}{{"hangup", "", []os.Signal{syscall.SIGHUP}}, {"nohup", `trap "" HUP; `, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}}} {
		if c.before == "" && signal.Ignored(syscall.SIGHUP) {
			t.Log("skipped: hangups are ignored here, and so by every program that is started (nohup)")
			continue
		}
		link := t.TempDir() + "/darkroom" // by this name the test binary is the program
		if err := os.Symlink(os.Args[0], link); err != nil {
			t.Fatal(err)
		}
		p := exec.Command("sh", "-c", c.before+`exec "$0" score --reward scene --serve localhost:0`, link)
		errs, err := p.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
		if said, err := bufio.NewReader(errs).ReadString('\n'); !strings.Contains(said, "answers at") {
			t.Errorf("%s: %q, %v", c.name, said, err)
		}
		for _, s := range c.signals {
			_ = p.Process.Signal(s) // if it has ended, Wait says how
			time.Sleep(50 * time.Millisecond)
		}
		err = p.Wait()
		if !late.Stop() || err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
