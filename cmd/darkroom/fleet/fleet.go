// Package fleet is a run's workers: 'darkroom fleet', 'darkroom worker', and the trainer's half, 'train --listen'.
package fleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/fleet/natsio"
)

// Command is 'darkroom fleet': the workers that rolled a run's samples.
func Command() *cobra.Command {
	var revoke, creds string
	cmd := &cobra.Command{
		Use:   "fleet RUN",
		Short: "Say which workers rolled a run's samples",
		Long: `Say which workers rolled a run's samples, how much each did and how fast, and which were
dismissed because their results had other bits. It reads the run's folder alone, during the run or
afterwards.

--revoke takes a worker's key back: its trainer cuts it off at once, does again what it has done of
open jobs, and writes the join file anew. Workers that are there stay; those that come later need
the new file.`,
		Example: "  darkroom fleet runs/poster\n  darkroom fleet runs/poster --json\n  darkroom fleet runs/poster --revoke slurm-17",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if revoke != "" {
				return revokeWorker(cmd, args[0], revoke, creds)
			}
			if creds != "" {
				return exits.Usagef("--creds goes with --revoke")
			}
			shares, err := ledger.ReadShares(filepath.Join(args[0], ledger.FleetFile))
			if errors.Is(err, fs.ErrNotExist) {
				return exits.Usagef("%s: no worker ever rolled for this run, or it is no run's folder\nhint: 'darkroom train --listen' lets workers in", args[0])
			}
			if err != nil {
				return err
			}
			return console.Emit(cmd, shares, func(w io.Writer) { writeShares(w, shares) })
		},
	}
	cmd.Flags().StringVar(&revoke, "revoke", "", "take back the key of the worker called `NAME`")
	cmd.Flags().StringVar(&creds, "creds", "", "the `FILE` of credentials for the server that 'train --workers' names (with --revoke)")
	return cmd
}

// revokeWorker takes a worker's key back.
func revokeWorker(cmd *cobra.Command, dir, worker, creds string) error {
	asked, err := natsio.Revoke(dir, worker, creds)
	if err != nil {
		return exits.Usage(fmt.Errorf("--revoke %s: %w", worker, err))
	}
	how := "the trainer is not at work, and refuses it when it is resumed"
	if asked {
		how = "the trainer has cut it off"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the key of worker %s is taken back: %s; %s is written anew\n", worker, how, filepath.Join(dir, natsio.JoinFile))
	return nil
}

// writeShares is the table for people.
func writeShares(w io.Writer, shares []ledger.Share) {
	t := console.Table{Header: []string{"WORKER", "JOBS", "SECONDS A JOB", "MB", "COMPARED", "LAST"}}
	for _, s := range shares {
		last := s.Last
		if s.Dismissed != "" {
			last = "dismissed: " + s.Dismissed
		}
		t.Add(s.Worker, fmt.Sprint(s.Jobs), fmt.Sprintf("%.2f", s.Median), fmt.Sprintf("%.1f", float64(s.Bytes)/1e6), fmt.Sprint(s.Audited), last)
	}
	t.Write(w)
}
