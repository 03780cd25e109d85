package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
)

// benchModes times a CUDA device in one mode after another: as DARKROOM_CUDA says, or as --mode does, so that
// kernels of our own and the library's are compared on one device in one run. The last column of
// the second and of later ones says how many times faster they are than the first (or than
// --against, where that is given).
type benchModes struct {
	cmd     *cobra.Command
	quiet   bool
	heading func()
	other   map[string]float64
}

func (b *benchModes) run(report *benchReport, options bench.Options, device string, modes []string) (err error) {
	if len(modes) == 0 {
		modes = []string{os.Getenv(cuda.ModeVariable)}
	}
	opened := make([]backend, len(modes)) // all, before the first is timed
	for i, mode := range modes {
		if opened[i], err = openCUDA(device, mode); err != nil {
			return err
		}
		defer opened[i].Close()
	}
	out, several := b.cmd.OutOrStdout(), len(modes) > 1
	for i, be := range opened {
		path := fmt.Sprint(be)
		report.Path = cmp.Or(report.Path, path)
		if !b.quiet {
			fmt.Fprintf(out, "\n%s; its peaks are not probed\n", path)
		}
		o := options
		onDevice(&o, be, b.heading)
		o.Done = func(r bench.Row) {
			if !b.quiet {
				printBenchRow(out, r, b.other)
			}
		}
		rows, err := bench.Run(b.cmd.Context(), o)
		if err = errors.Join(err, tellChoices(b.cmd.ErrOrStderr(), be)); err != nil {
			return err
		}
		for j := range rows {
			if several {
				rows[j].Mode = cmp.Or(modes[i], "default")
			}
		}
		report.Rows = append(report.Rows, rows...)
		if !b.quiet && len(b.other) > 0 {
			printMeans(out, rows, b.other)
		}
		if len(b.other) == 0 && several {
			b.other = bestTimes(rows)
		}
	}
	return emit(b.cmd, report, func(io.Writer) {})
}
