package main

import (
	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// exampleFlag is --example of the commands that take an experiment's file.
func exampleFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "example", "", "the embedded experiment `NAME` in place of a file: 'darkroom list examples'")
}

// example is the text of the embedded experiment that was asked for, the quickstart where nothing was. No
// name: a file was named.
func example(args []string, asked string) (name string, text []byte, err error) {
	switch {
	case len(args) == 1 && asked != "":
		return "", nil, usagef("--example %s and %s: name one of them", asked, args[0])
	case len(args) == 1:
		return "", nil, nil
	case asked == "":
		asked = assets.Quickstart
	}
	if text, err = assets.Config(asked); err != nil {
		return "", nil, usageOf(err)
	}
	return asked, text, nil
}

// fileOrExample reads the file that was named, or the embedded experiment that was asked for.
func fileOrExample(args []string, asked string, sets []string) (*experiment.Experiment, error) {
	name, text, err := example(args, asked)
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return readExperiment(args[0], sets)
	}
	e, err := experiment.Parse(name+".toml", text, sets)
	return e, asUsage(err)
}
