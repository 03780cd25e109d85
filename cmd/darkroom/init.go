package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
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
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (asked == "") == (recipe == "") {
				return exits.Usagef("init needs --example NAME or --recipe NAME\nhint: 'darkroom list examples' and 'darkroom list recipes' say which there are")
			}
			read := assets.Config
			if recipe != "" {
				asked, read = recipe, assets.Recipe
			}
			text, err := read(asked)
			if err != nil {
				return exits.Usage(err)
			}
			if recipe != "" {
				text = withDifferences(text, held(experiment.RecipeDepartures(recipe)))
			}
			return console.Emit(cmd, map[string]string{"name": asked, "text": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) })
		},
	}
	inputs.ExampleFlag(cmd, &asked)
	cmd.Flags().StringVar(&recipe, "recipe", "", "the published experiment `NAME`: 'darkroom list recipes'")
	return cmd
}

// withDifferences puts the departures from the publication below the comment that a recipe begins with.
func withDifferences(text []byte, all []experiment.Departure) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	at := 0
	for at < len(lines) && strings.HasPrefix(lines[at], "#") {
		at++
	}
	var out bytes.Buffer
	out.WriteString(strings.Join(lines[:at], ""))
	for _, d := range all {
		for i, line := range console.Wrapped("Differs: "+d.String(), 116) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(&out, "# "+line)
		}
	}
	out.WriteString(strings.Join(lines[at:], ""))
	return out.Bytes()
}
