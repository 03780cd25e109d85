package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/outside/plain"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2   // wrong usage or config: nothing was done
	exitStopped     = 3   // a monitor stopped the run
	exitInterrupted = 130 // the first Ctrl-C; what can be saved was saved
)

func main() {
	// The first Ctrl-C asks the command to finish; it also restores the
	// default, so that the second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endings are the signals that ask the program to end. A lost terminal is one, unless nohup said
// that it is none.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// execute runs one command line and returns its exit code. Whatever is printed passes plain.Writer, since
// names of files, settings of models and replies of servers are strangers' text.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, stderr = plain.Writer{W: stdout}, plain.Writer{W: stderr}
	debug.SetPanicOnFault(true)
	defer func() { // left alone, a panic would end with 2, which means wrong usage
		switch p := recover().(type) {
		case nil:
		case kernels.DeviceError: // a device's failure has no other way out of an operation
			fmt.Fprintf(stderr, "darkroom: %v\n", p)
			code = exitFailed
		case fault:
			fmt.Fprintf(stderr, "darkroom: %s\n\n%s", unreadable(p), debug.Stack())
			code = exitFailed
		default:
			fmt.Fprintf(stderr, "darkroom: a mistake in the program: %v\n\n%s", p, debug.Stack())
			code = exitFailed
		}
	}()
	root := newRoot()
	if isCompletion(args) {
		completeNames(root)
	}
	out := &counted{w: stdout}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	says := err
	if code = exitOf(ctx, err); code == exitInterrupted && errors.Is(err, context.Canceled) {
		says = errors.New("interrupted")
	}
	fmt.Fprintf(stderr, "darkroom: %v\n", says)
	if wantsJSON(args) && !out.any {
		writeFailure(out, says, code)
	}
	return code
}

// exitOf is the exit code of a command's error.
func exitOf(ctx context.Context, err error) int {
	var wrong usageError
	var early exitError
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &early):
		return early.code
	case errors.As(err, &wrong):
		return exitUsage
	}
	return exitFailed
}

// An exitError is a run that ended before its end, as it should have, with its own exit code.
type exitError struct {
	code int
	says string
}

func (e exitError) Error() string { return e.says }

// A usageError is the user's mistake in what was typed; it ends with exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usageOf makes an error the user's mistake.
func usageOf(err error) error { return usageError{err} }

// usagef returns a usageError.
func usagef(format string, args ...any) error {
	return usageOf(fmt.Errorf(format, args...))
}
