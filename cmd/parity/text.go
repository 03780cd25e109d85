package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// write prints a line an operation, and what is wrong with single cases.
func write(w io.Writer, r *Report) {
	rows := [][4]string{{"OP", "CASES", "WORST", "RESULT"}}
	for _, op := range r.Ops {
		rows = append(rows, [4]string{op.Op, fmt.Sprint(op.Cases), worstText(op), resultText(op)})
	}
	var wide [4]int
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], len(cell))
		}
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s  %*s  %*s  %s\n", wide[0], row[0], wide[1], row[1], wide[2], row[2], row[3])
	}
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

func worstText(op Tally) string {
	if op.Unsupported || op.Cases == 0 || math.IsInf(float64(op.Worst), 0) {
		return "-"
	}
	return fmt.Sprintf("%.2g", float64(op.Worst))
}

func resultText(op Tally) string {
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

// verdict is the error that a report amounts to.
func verdict(r *Report, o Options, allowUnsupported bool) error {
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
