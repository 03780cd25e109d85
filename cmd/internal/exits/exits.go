// Package exits is the exit codes of the programs: errors that have one, and a check of them in testscripts.
package exits

import (
	"errors"
	"os/exec"
	"strconv"
)

// A Script is a running testscript.
type Script interface {
	Exec(command string, args ...string) error
	Fatalf(format string, args ...any)
}

// Check is `exits CODE COMMAND [ARG...]`, which runs a command and wants that exit code; '! exec' takes any.
func Check(ts Script, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = exitCode(err)
	}
	if code != args[0] {
		ts.Fatalf("%v: exit code %s, want %s", args[1:], code, args[0])
	}
}

func exitCode(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}
