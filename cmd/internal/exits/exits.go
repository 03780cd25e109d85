// Package exits is the exit codes of the programs: errors that have one, and a check of them in testscripts.
package exits

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	Done        = 0
	Failed      = 1
	Wrong       = 2   // wrong usage or config: nothing was done
	Stopped     = 3   // a monitor stopped the run
	Interrupted = 130 // by a signal: the first one saves first; after a second one work since the last checkpoint is lost
)

// An Early is a run that ended before its end, as it should have, with its own exit code.
type Early struct {
	Code    int
	Message string
}

func (e Early) Error() string { return e.Message }

// A UsageError is the user's mistake on the command line; it ends with exit code 2.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }

func (e UsageError) Unwrap() error { return e.err }

// Usage makes an error the user's mistake.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("'%s' takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

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
