package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  darkroom version\n  darkroom version --json",
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version.Read()
			return console.Emit(cmd, v, func(w io.Writer) { fmt.Fprintln(w, v) })
		},
	}
}
