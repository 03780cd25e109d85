package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/interrupts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/outside/plain"
)

func main() {
	ctx := interrupts.Context(func() { fmt.Fprintln(os.Stderr, "darkroom: interrupted at once") }, func() { os.Exit(exits.Interrupted) })
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
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
			code = exits.Failed
		case fault:
			fmt.Fprintf(stderr, "darkroom: %s\n\n%s", unreadable(p), debug.Stack())
			code = exits.Failed
		default:
			fmt.Fprintf(stderr, "darkroom: a mistake in the program: %v\n\n%s", p, debug.Stack())
			code = exits.Failed
		}
	}()
	root := newRoot()
	if isCompletion(args) {
		completeNames(root)
	}
	out := &console.Counted{W: stdout}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exits.Done
	}
	says := err
	if code = exitOf(ctx, err); code == exits.Interrupted && errors.Is(err, context.Canceled) {
		says = errors.New("interrupted")
	}
	console.Message(stderr, fmt.Sprintf("darkroom: %v", says))
	if wantsJSON(args) && !out.Any {
		writeFailure(out, says, code)
	}
	return code
}

// exitOf is the exit code of a command's error.
func exitOf(ctx context.Context, err error) int {
	var wrong exits.UsageError
	var early exits.Early
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exits.Interrupted
	case errors.As(err, &early):
		return early.Code
	case errors.As(err, &wrong):
		return exits.Wrong
	}
	return exits.Failed
}
