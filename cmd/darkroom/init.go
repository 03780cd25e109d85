package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/plan"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/elsewhere"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// darkroom init: an experiment's file to begin with, from those that are embedded.

func initCommand() *cobra.Command {
	var asked, recipe, from string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print an experiment's file to begin with",
		Long: `Print an experiment's file to begin with, with comments. --example is one of the embedded
experiments, which run as they are ('darkroom list examples'). --recipe is a published experiment for models that
people have ('darkroom list recipes'): its file says where the numbers are from and what differs, with the
commands that fetch its model, prompts and rewards. 'darkroom plan' plans it before they are fetched.

--from translates flow_grpo's config/grpo.py, of which FILE:NAME is a function, and Flow-Factory's .yaml files. Settings
with the same meaning here are written; all others become comments with their reasons. No Python runs.`,
		Example: "  darkroom init --example mixgrpo > my.toml\n  darkroom init --recipe sd35m_flow_grpo_ocr > my.toml\n  darkroom init --from config/grpo.py:pickscore_sd3 > my.toml",
		Args:    exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := 0
			for _, flag := range []string{asked, recipe, from} {
				if flag != "" {
					given++
				}
			}
			if given != 1 {
				return exits.Usagef("init needs one of --example NAME, --recipe NAME and --from FILE\nhint: 'darkroom list examples' and 'darkroom list recipes' say which there are")
			}
			if from != "" {
				text, err := elsewhere.Translate(from)
				if err != nil {
					return exits.Usage(err)
				}
				return console.Emit(cmd, map[string]string{"name": from, "text": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) })
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
				fetched, err := fetching(recipe, text)
				if err != nil {
					return err
				}
				text = withHeader(text, append(fetched, differing(held(experiment.RecipeDepartures(recipe)))...))
			}
			return console.Emit(cmd, map[string]string{"name": asked, "text": string(text)}, func(w io.Writer) { fmt.Fprint(w, string(text)) })
		},
	}
	inputs.ExampleFlag(cmd, &asked)
	cmd.Flags().StringVar(&recipe, "recipe", "", "the published experiment `NAME`: 'darkroom list recipes'")
	cmd.Flags().StringVar(&from, "from", "", "the settings of another program in `FILE`, or of a function of it in FILE:NAME")
	return cmd
}

// fetching are comments with the commands that fetch a recipe's parts.
func fetching(recipe string, text []byte) (lines []string, err error) {
	e, err := experiment.Parse(recipe+".toml", text, nil)
	if err != nil {
		return nil, err
	}
	needed, err := plan.Needed(e)
	for _, a := range needed {
		switch {
		case a.Fetch == "":
			lines = append(lines, "Wanted: "+a.Path+": "+a.Note)
		case !slices.Contains(lines, "Fetch: "+a.Fetch):
			lines = append(lines, "Fetch: "+a.Fetch)
			if a.Note != "" {
				lines = append(lines, "  "+a.Note)
			}
		}
	}
	return lines, err
}

// differing are comments with the departures from the publication.
func differing(all []experiment.Departure) (lines []string) {
	for _, d := range all {
		lines = append(lines, "Differs: "+d.String())
	}
	return lines
}

// withHeader puts comments below the comment that a recipe begins with.
func withHeader(text []byte, comments []string) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	at := 0
	for at < len(lines) && strings.HasPrefix(lines[at], "#") {
		at++
	}
	var out bytes.Buffer
	out.WriteString(strings.Join(lines[:at], ""))
	for _, comment := range comments {
		indented := strings.HasPrefix(comment, " ")
		for i, line := range console.Wrapped(strings.TrimSpace(comment), 114) {
			if i > 0 || indented {
				line = "  " + line
			}
			fmt.Fprintln(&out, "# "+line)
		}
	}
	out.WriteString(strings.Join(lines[at:], ""))
	return out.Bytes()
}
