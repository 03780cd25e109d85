// Command parity runs recorded cases of published implementations through
// Darkroom's own code, and says where the two differ:
//
//	go run ./cmd/parity internal/golden
//
// A case is inputs, outputs and a tolerance, and names an operation: "sde.ddim".
// Cases come as JSON families, a file with a list of them, and as folders with
// case.json and tensors.safetensors (load.go has both forms). An [Op] computes
// the outputs of a case from its inputs:
//
//	func statTracker(c *Case) {
//		c.Put("advantages", must(numpyGroup(c.Bool("global_std")).Of(idsOf(c.Strings("groups")), c.Floats("rewards"))))
//	}
//
// It only translates names and shapes, and reaches an implementation through the code that training uses. A file
// holds the ops of one area, and run.go joins and runs these. Start at case.go, the inputs of an op; compare.go
// judges: a value passes when |got - want| <= abs + rel |want|.
//
// Case files come from strangers: a malformed one is an error that names the
// file and the case, and the others still run.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"syscall"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/spf13/cobra"
)

// Exit codes, those of darkroom.
const (
	exitDone        = 0
	exitFailed      = 1 // a case differs, or is unknown
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code := exitUsage // until the cases run, every failure is about the command line
	cmd := command(&code)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err, code = errors.New("interrupted"), exitInterrupted
	}
	fmt.Fprintf(stderr, "parity: %v\n", err)
	return code
}

// command is the command line. It sets the exit code of a failure to exitFailed once its arguments are right.
func command(code *int) *cobra.Command {
	var o Options
	var asJSON, allowUnsupported bool
	var name string
	cmd := &cobra.Command{
		Use:   "parity PATH...",
		Short: "Run recorded cases of published implementations and compare",
		Long: `Run recorded cases of published implementations through Darkroom's own code, and
compare the outputs within each case's tolerance. A PATH is a JSON file with a
list of cases, a folder with case.json and tensors.safetensors, or a folder of
any mixture of these. Ends with 1 if a case fails or its operation is unknown.

Networks, pipelines, towers and optimisers compute on --device; what is mathematics on
the host (solvers, losses, advantages) does not.`,
		Example:       "  parity internal/golden\n  parity internal/golden/math --op 'sde.*' --allow-unsupported --json",
		Args:          cobra.MinimumNArgs(1),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args, name); err != nil {
				return err
			}
			*code = exitFailed
			r, err := Run(cmd.Context(), args, o)
			if err != nil {
				return err
			}
			if err := emit(cmd.OutOrStdout(), r, asJSON); err != nil {
				return err
			}
			return verdict(r, o, allowUnsupported)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Op, "op", "", "run only operations that match `PATTERN`, such as 'loss.*'")
	f.StringVar(&o.Networks, "networks", "", "`FOLDER` of published networks, NETWORK/FILE.onnx; without it their cases are skipped")
	f.StringVar(&name, "device", "auto", device.Help)
	f.BoolVar(&allowUnsupported, "allow-unsupported", false, "do not fail because of operations that are unknown")
	f.BoolVar(&asJSON, "json", false, "print one JSON document instead of text for people")
	return cmd
}

// check checks the command line, and sets the cases' backend.
func (o *Options) check(paths []string, name string) error {
	if _, err := path.Match(o.Op, ""); err != nil {
		return fmt.Errorf("pattern %q of operations: %w", o.Op, err)
	}
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return err
		}
	}
	be, err := device.Open(name) // once before the cases, so that a missing device is reported once
	if err != nil {
		return err
	}
	be.Close()
	o.Backend = func() (device.Backend, error) { return device.Open(name) }
	return nil
}

// emit prints a report as text or as JSON.
func emit(out io.Writer, r *Report, asJSON bool) error {
	w := bufio.NewWriter(out) // it keeps the first error of all the lines
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
	} else {
		write(w, r)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
