package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
)

// darkroom init: an experiment's file to begin with, from those that are embedded.

func initCommand() *cobra.Command {
	var asked, recipe string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print an experiment's file to begin with",
		Long: `Print an experiment's file to begin with, with comments. --example is one of the embedded
experiments, which run as they are ('darkroom list examples'). --recipe is a published experiment for models that
people have ('darkroom list recipes'): its file says where the numbers are from and what differs, and names the
folders to download.`,
		Example: "  darkroom init --example mixgrpo > my.toml\n  darkroom init --recipe sd35m_flow_grpo_ocr > my.toml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (asked == "") == (recipe == "") {
				return usagef("init needs --example NAME or --recipe NAME\nhint: 'darkroom list examples' and 'darkroom list recipes' say which there are")
			}
			read := assets.Config
			if recipe != "" {
				asked, read = recipe, assets.Recipe
			}
			text, err := read(asked)
			if err != nil {
				return usageError{err}
			}
			return emit(cmd, map[string]string{"name": asked, "text": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) })
		},
	}
	exampleFlag(cmd, &asked)
	cmd.Flags().StringVar(&recipe, "recipe", "", "the published experiment `NAME`: 'darkroom list recipes'")
	return cmd
}
