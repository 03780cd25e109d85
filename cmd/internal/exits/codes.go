package exits

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	Done        = 0
	Failed      = 1
	Wrong       = 2   // wrong usage or config: nothing was done
	Stopped     = 3   // a monitor stopped the run
	Interrupted = 130 // the first Ctrl-C; what can be saved was saved
)

// An Early is a run that ended before its end, as it should have, with its own exit code.
type Early struct {
	Code int
	Says string
}

func (e Early) Error() string { return e.Says }

// A UsageError is the user's mistake in what was typed; it ends with exit code 2.
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
