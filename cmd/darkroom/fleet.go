package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// darkroom fleet: who rolled a run's samples.

func fleetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "fleet RUN",
		Short: "Say which workers rolled a run's samples",
		Long: `Say which workers rolled a run's samples, how much each did and how fast, and which were
dismissed because their results had other bits. It reads the run's folder alone, during the run or
afterwards.`,
		Example: "  darkroom fleet runs/poster\n  darkroom fleet runs/poster --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shares, err := ledger.ReadShares(filepath.Join(args[0], ledger.FleetFile))
			if errors.Is(err, fs.ErrNotExist) {
				return usagef("%s: no worker ever rolled for this run, or it is no run's folder\nhint: 'darkroom train --listen' lets workers in", args[0])
			}
			if err != nil {
				return err
			}
			return emit(cmd, shares, func(w io.Writer) { writeShares(w, shares) })
		},
	}
}

// writeShares is the table for people.
func writeShares(w io.Writer, shares []ledger.Share) {
	t := table{header: []string{"WORKER", "JOBS", "SECONDS A JOB", "MB", "COMPARED", "LAST"}}
	for _, s := range shares {
		last := s.Last
		if s.Dismissed != "" {
			last = "dismissed: " + s.Dismissed
		}
		t.add(s.Worker, fmt.Sprint(s.Jobs), fmt.Sprintf("%.2f", s.Median), fmt.Sprintf("%.1f", float64(s.Bytes)/1e6), fmt.Sprint(s.Audited), last)
	}
	t.write(w)
}
