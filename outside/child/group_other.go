//go:build !unix

package child

import "os/exec"

// Apart does nothing here: there are no groups to kill.
func Apart(*exec.Cmd) {}

// Kill ends the process alone; its children read the end of their input.
func Kill(c *exec.Cmd) error { return c.Process.Kill() }
