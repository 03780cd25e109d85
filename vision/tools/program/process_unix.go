//go:build unix

package program

import (
	"errors"
	"os/exec"
	"syscall"
)

// apart puts a process into a session of its own: it has no terminal, hears no Ctrl-C, and leads
// a group of all that it starts.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// kill ends the process and its group.
func kill(c *exec.Cmd) error {
	return errors.Join(syscall.Kill(-c.Process.Pid, syscall.SIGKILL), c.Process.Kill())
}
