package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/view/compare"
	"github.com/darkroom-rl/darkroom/view/report"
)

// darkroom compare: the differences that view/compare finds between two folders, as words or JSON.

func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Say how two runs differ: settings, the first number that differs, what is held out",
		Long: `Compare the folders of two runs: the settings that differ, the first number that differs with
its place (iteration, prompt, sample, token) and how many units in the last place lie between, and
what that means: another seed, another value of a reward, other weights, only other times, or
nothing. What is held out is compared prompt by prompt, with a 95 % interval of the difference.

A run is a function of its settings, model and prompts: where these are the same, so is every
number, on any machine and with any number of threads. 'darkroom report A B' compares curves.`,
		Example: "  darkroom compare runs/first runs/second\n  darkroom compare runs/first runs/second --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("'%s' needs the folders of two runs, got %d\nhint: see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := compare.Runs(args[0], args[1])
			if err != nil {
				return err
			}
			return console.Emit(cmd, c, func(w io.Writer) { writeComparison(w, c) })
		},
	}
}

// writeComparison prints a comparison for people. Of runs with other settings, seeds, models or prompts the held-out
// scores come first; of runs that should be the same, the first number that differs.
func writeComparison(w io.Writer, c *compare.Comparison) {
	fmt.Fprintf(w, "A is %s, B is %s\n", c.A, c.B)
	meant := slices.Contains([]compare.Cause{compare.Seed, compare.Settings, compare.Model, compare.Prompts}, c.Cause)
	if meant {
		writeHeldOut(w, c)
	} else {
		writeFirst(w, c)
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"SETTINGS, from A to B", c.Settings}, {"BESIDE THEM", c.Inputs}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(w, "\n%s\n", console.Bold(w, part.title))
		}
		for _, line := range part.lines {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if c.Seconds[0] > 0 && c.Seconds[1] > 0 {
		fmt.Fprintf(w, "\n%d iterations of A took %.1f s, %d of B %.1f s\n", c.Iterations[0], c.Seconds[0], c.Iterations[1], c.Seconds[1])
	}
	if meant {
		writeFirst(w, c)
	} else {
		writeHeldOut(w, c)
	}
}

// writeFirst prints the first number that differs, with its meaning.
func writeFirst(w io.Writer, c *compare.Comparison) {
	fmt.Fprintf(w, "\n%s: %s\n", c.Cause, c.Meaning)
	if c.First != nil {
		fmt.Fprintf(w, "  %s\n", c.First)
		if c.First.Text != "" {
			fmt.Fprintf(w, "  the prompt: %s\n", c.First.Text)
		}
	}
	if c.Iterations[0] != c.Iterations[1] {
		fmt.Fprintf(w, "  A has %d iterations and B %d: the first %d are compared\n", c.Iterations[0], c.Iterations[1], min(c.Iterations[0], c.Iterations[1]))
	}
}

// writeHeldOut prints held-out scores, compared prompt by prompt.
func writeHeldOut(w io.Writer, c *compare.Comparison) {
	if len(c.HeldOut) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := console.Table{Header: []string{"HELD OUT", ">PROMPTS", ">A", ">B", ">B - A", "95 %", ""}}
	for _, h := range c.HeldOut {
		note := better(h.Difference)
		if !h.Paired {
			note = "not paired: a folder has no heldout.jsonl"
		}
		if h.Iterations[0] != h.Iterations[1] {
			note = fmt.Sprintf("after iterations %d and %d", h.Iterations[0], h.Iterations[1])
		}
		t.Add(h.Reward, fmt.Sprint(h.Difference.Prompts), fmt.Sprintf("%.3f", h.A.Mean), fmt.Sprintf("%.3f", h.B.Mean), report.Signed(h.Difference.Mean), between(h.Difference), note)
	}
	t.Write(w)
}

// better names the run that is ahead beyond chance.
func better(m ledger.Measure) string {
	switch {
	case m.Prompts < 2:
		return ""
	case m.Low > 0:
		return "B is higher"
	case m.High < 0:
		return "A is higher"
	}
	return "no difference beyond chance"
}

// between is a measure's interval, which one prompt does not have.
func between(m ledger.Measure) string {
	if m.Prompts < 2 {
		return "one prompt"
	}
	return fmt.Sprintf("%s to %s", report.Signed(m.Low), report.Signed(m.High))
}
