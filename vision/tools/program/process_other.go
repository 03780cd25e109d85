//go:build !unix

package program

import "os/exec"

// apart does nothing here: there are no groups to kill.
func apart(*exec.Cmd) {}

// kill ends the process alone; what it started hears the end of its input.
func kill(c *exec.Cmd) error { return c.Process.Kill() }
