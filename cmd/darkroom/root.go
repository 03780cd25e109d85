package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/ask"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/bench"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/doctor"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/eval"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/export"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/fleet"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inspect"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/plan"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/quantize"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/sample"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/score"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/train"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
)

// newRoot builds the command tree. A new subcommand is a package, or one file, and one line here.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "darkroom",
		Short: "Post-train image, video and vision-language models with reinforcement learning",
		Long: `Darkroom develops pictures: it post-trains image, video and vision-language
models with reinforcement learning, in one binary, with no Python.

Exit codes: 0 done, 1 failed, 2 wrong usage or config, 3 stopped by a
monitor, 130 interrupted (the first Ctrl-C saves, a second one ends at once).`,
		Example:       "  darkroom doctor\n  darkroom list paths --json",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		Version:       version.Read().String(),
		RunE:          showHelp,

		SuggestionsMinimumDistance: 2,
	}
	root.PersistentFlags().Bool("json", false, "print one JSON document instead of text for people")
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		ablateCommand(),
		bench.Command(),
		compareCommand(),
		doctor.Command(),
		eval.Command(),
		export.Command(),
		fleet.Command(),
		initCommand(),
		inspect.Command(),
		ask.Command(),
		listCommand(),
		plan.Command(),
		train.Command(),
		reportCommand(),
		pretrainCommand(),
		pullCommand(),
		quantize.Command(),
		sample.Command(),
		score.Command(),
		versionCommand(),
		watchCommand(),
		fleet.WorkerCommand(),
	)
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(helpCommand())
	markUsageErrors(root)
	return root
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// knownCommand refuses words that cobra could not match with a subcommand.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if args[0] == "parity" {
		return errors.New("there is no command \"parity\" any more\nhint: in Darkroom's repository, 'go run ./cmd/parity PATH...' runs recorded cases")
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", strings.Join(near, `" or "`))
	}
	return fmt.Errorf("unknown command %q\nhint: %s", args[0], hint)
}

// helpCommand is cobra's own, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command",
		Example: "  darkroom help doctor",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return exits.Usage(err)
			}
			if len(rest) > 0 {
				return exits.Usage(knownCommand(topic, rest))
			}
			return topic.Help()
		},
	}
}

// markUsageErrors makes every complaint about flags and arguments a UsageError.
func markUsageErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exits.Usagef("%w\nhint: see '%s --help'", err, c.CommandPath())
	})
	if !cmd.Runnable() { // only a group of commands: without this, a wrong name would pass
		cmd.Args, cmd.RunE = knownCommand, showHelp
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return exits.Usage(err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		markUsageErrors(sub)
	}
}
