package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
)

func initCommand() *cobra.Command {
	var asked string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print an experiment's file to begin with",
		Long: `Print an experiment's file to begin with, with comments. --example is one of the embedded
experiments, which run as they are ('darkroom list examples').`,
		Example: "  darkroom init --example mixgrpo > my.toml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked == "" {
				return usagef("init needs --example NAME\nhint: 'darkroom list examples' says which there are")
			}
			text, err := assets.Config(asked)
			if err != nil {
				return usageError{err}
			}
			return emit(cmd, map[string]string{"name": asked, "text": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) })
		},
	}
	exampleFlag(cmd, &asked)
	return cmd
}
