package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/parity"
)

func parityCommand() *cobra.Command {
	var o parity.Options
	var allowUnsupported bool
	var device string
	cmd := &cobra.Command{
		Use:   "parity PATH...",
		Short: "Run recorded cases of published implementations and compare",
		Long: `Run recorded cases of published implementations through Darkroom's own code, and
compare the outputs within each case's tolerance. A PATH is a JSON file with a
list of cases, a folder with case.json and tensors.safetensors, or a folder of
any mixture of these. Ends with 1 if a case fails or its operation is unknown.

Networks, pipelines, towers and optimisers compute on --device; what is mathematics on
the host (solvers, losses, advantages) does not.`,
		Example: "  darkroom parity cmd/darkroom/parity/testdata/golden\n  darkroom parity cmd/darkroom/parity/testdata/golden/math --op 'sde.*' --allow-unsupported --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := path.Match(o.Op, ""); err != nil {
				return usagef("pattern %q of operations: %w", o.Op, err)
			}
			for _, p := range args {
				if _, err := os.Stat(p); err != nil {
					return usageError{err}
				}
			}
			be, err := openDevice(device) // once before the cases, so that what is missing is said once
			if err != nil {
				return err
			}
			be.Close()
			o.Backend = func() (parity.Backend, error) { return openDevice(device) }
			r, err := parity.Run(cmd.Context(), args, o)
			if err != nil {
				return err
			}
			if err := emit(cmd, r, func(w io.Writer) { writeParity(w, r) }); err != nil {
				return err
			}
			return parityVerdict(r, o, allowUnsupported)
		},
	}
	cmd.Flags().StringVar(&o.Op, "op", "", "run only operations that match `PATTERN`, such as 'loss.*'")
	deviceFlag(cmd, &device)
	cmd.Flags().BoolVar(&allowUnsupported, "allow-unsupported", false, "do not fail because of operations that are unknown")
	return cmd
}

// writeParity prints a line an operation, and what is wrong with single cases.
func writeParity(w io.Writer, r *parity.Report) {
	t := table{header: []string{"OP", ">CASES", ">WORST", "RESULT"}}
	for _, op := range r.Ops {
		t.add(op.Op, fmt.Sprint(op.Cases), worstText(op), resultText(op))
	}
	t.write(w)
	for _, f := range r.Failures {
		fmt.Fprintf(w, "FAIL %s %s (%s): %s\n", f.Op, f.Case, f.File, f.What)
	}
	for _, f := range r.Skips {
		fmt.Fprintf(w, "skip %s %s (%s): %s\n", f.Op, f.Case, f.File, f.What)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "ERROR %s\n", e)
	}
	fmt.Fprintf(w, "%d cases: %d passed, %d failed, %d unknown, %d skipped\n", r.Cases, r.Passed, r.Failed, r.Unsupported, r.Skipped)
}

func worstText(op parity.Tally) string {
	if op.Unsupported || op.Cases == 0 || math.IsInf(float64(op.Worst), 0) {
		return "-"
	}
	return fmt.Sprintf("%.2g", float64(op.Worst))
}

func resultText(op parity.Tally) string {
	result := "pass"
	switch {
	case op.Unsupported:
		return "unknown"
	case op.Cases == 0:
		return "skipped"
	case op.Passed < op.Cases:
		result = fmt.Sprintf("FAIL, %d of %d", op.Cases-op.Passed, op.Cases)
	}
	if op.Skipped > 0 {
		result += fmt.Sprintf(", %d skipped", op.Skipped)
	}
	return result
}

// parityVerdict is the error that a report amounts to.
func parityVerdict(r *parity.Report, o parity.Options, allowUnsupported bool) error {
	var wrong []string
	count := func(n int, format string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf(format, n))
		}
	}
	count(r.Failed, "%d cases differ")
	if !allowUnsupported {
		count(r.Unsupported, "%d cases have unknown operations")
	}
	count(len(r.Errors), "%d files or cases could not be read")
	switch {
	case len(wrong) > 0:
		return errors.New(strings.Join(wrong, ", "))
	case r.Cases+r.Skipped == 0 && o.Op != "":
		return fmt.Errorf("no case has an operation that matches %q", o.Op)
	case r.Cases+r.Skipped == 0:
		return errors.New("there are no cases")
	}
	return nil
}
