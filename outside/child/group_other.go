//go:build !unix

package child

import "os/exec"

// Apart does nothing here: there are no groups to kill.
func Apart(*exec.Cmd) {}

// Kill ends the process alone; what it started hears the end of its input.
func Kill(c *exec.Cmd) error { return c.Process.Kill() }
