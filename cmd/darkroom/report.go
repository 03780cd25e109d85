package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/view/report"
)

func reportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Write a run's page: what it came to, pictures before and after, curves, what was asked for",
		Long: `Write report.html into a run's folder, from what the folder holds: gains with intervals, monitors
that fired, pictures of held-out prompts before and after, the best and the worst samples, curves,
conversations, the plan. The page is one file that needs no network. The run may still be under
way; 'darkroom watch' serves the same page and follows it. Several folders also get a page that
compares them.`,
		Example: "  darkroom report runs/quickstart\n  darkroom report runs/first runs/second --out compare.html",
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
			switch {
			case len(args) > 1:
				if out == "" {
					out = filepath.Join(filepath.Dir(filepath.Clean(args[0])), report.CompareName)
				}
				if err := report.WriteCompare(out, args); err != nil {
					return err
				}
				pages = append(pages, out)
			case out != "":
				return exits.Usagef("--out names the page that compares several runs, and there is one\nhint: a run's own page is %s in its folder", report.Name)
			}
			return console.Emit(cmd, pages, func(w io.Writer) {
				for _, p := range pages {
					fmt.Fprintln(w, p)
				}
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the `FILE` that compares several runs (default compare.html beside the first)")
	return cmd
}
