package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/trainer/report"
)

func reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR...",
		Short: "Write a run's page: curves, pictures before and after, what was asked for",
		Long: `Write report.html into a run's folder, from what the folder holds: curves, measures and
pictures of held-out prompts before and after, monitors that fired. It is one file that
needs no network. A run that is under way can be looked at, too.`,
		Example: "  darkroom report runs/quickstart",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("'%s' needs the folder of a run\nhint: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var pages []string
			for _, dir := range args {
				if err := report.Write(dir); err != nil {
					return err
				}
				pages = append(pages, filepath.Join(dir, report.Name))
			}
			return emit(cmd, pages, func(w io.Writer) {
				for _, p := range pages {
					fmt.Fprintln(w, p)
				}
			})
		},
	}
}
