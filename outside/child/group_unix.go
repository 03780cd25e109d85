//go:build unix

package child

import (
	"errors"
	"os/exec"
	"syscall"
)

// Apart puts a process into a session of its own: it has no terminal, gets no Ctrl-C, and leads a group of its
// children.
func Apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Kill ends the process and its group. Call it before Wait: afterwards its number may be another's.
func Kill(c *exec.Cmd) error {
	return errors.Join(syscall.Kill(-c.Process.Pid, syscall.SIGKILL), c.Process.Kill())
}
