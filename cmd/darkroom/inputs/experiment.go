// Package inputs reads what command lines name: experiments, runs, pictures and clips.
package inputs

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// ExampleFlag is --example of the commands that take an experiment's file.
func ExampleFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "example", "", "the embedded experiment `NAME` in place of a file: 'darkroom list examples'")
}

// Example is the text of the embedded experiment that was asked for, the quickstart where nothing was. No
// name: a file was named.
func Example(args []string, asked string) (name string, text []byte, err error) {
	switch {
	case len(args) == 1 && asked != "":
		return "", nil, exits.Usagef("--example %s and %s: name one of them", asked, args[0])
	case len(args) == 1:
		return "", nil, nil
	case asked == "":
		asked = assets.Quickstart
	}
	if text, err = assets.Config(asked); err != nil {
		return "", nil, exits.Usage(err)
	}
	return asked, text, nil
}

// FileOrExample reads the file that was named, or the embedded experiment that was asked for.
func FileOrExample(args []string, asked string, sets []string) (*experiment.Experiment, error) {
	name, text, err := Example(args, asked)
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return readExperiment(args[0], sets)
	}
	e, err := experiment.Parse(name+".toml", text, sets)
	return e, AsUsage(err)
}

// readExperiment reads a file; what is wrong with it is the user's mistake.
func readExperiment(file string, sets []string) (*experiment.Experiment, error) {
	e, err := experiment.Read(file, sets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exits.Usagef("%s: no such file", file)
	}
	return e, AsUsage(err)
}

// AsUsage is an error of a file that is wrong: the user's, with how many mistakes there are.
func AsUsage(err error) error {
	var mistakes config.Mistakes
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistakes):
		return exits.Usagef("%s\n%w", console.Plural(int64(len(mistakes)), "mistake"), err)
	}
	return exits.Usage(err)
}
