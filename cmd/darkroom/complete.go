package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/trainer/trained/layouts"
	"github.com/darkroom-rl/darkroom/view/track"
)

// Completions of shells: names of examples, rewards and solvers, keys of an experiment with the values that are
// names, and folders of runs. 'darkroom completion SHELL' writes the shell's side.

// A completion returns candidates for typed text, with a line about each behind a tab.
type completion = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// isCompletion reports whether a shell asks, or wants its script. For other commands nothing is registered: cobra keeps
// each flag that has a completion, and its command, for as long as the process lives.
func isCompletion(args []string) bool {
	return len(args) > 0 && (strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) || args[0] == "completion")
}

// completeNames registers completions by the flags' names, so that a command's own file says nothing of them.
func completeNames(root *cobra.Command) {
	flags := map[string]completion{
		"example": complete(func() []name { return exampleNames() }),
		"recipe":  complete(sectionNames("recipes")),
		"reward":  several(sectionNames("rewards")),
		"solver":  complete(sectionNames("solvers")),
		"preset":  complete(sectionNames("presets")),
		"set":     completeSetting,
		"vary":    completeSetting,
		"device":  complete(deviceNames),
		"as":      words(slices.Concat(layouts.Names(), track.Layouts())...),
		"names":   words(slices.Concat([]string{"transformers5", "transformers4"}, track.Names())...),
		"dtype":   words("stored", "f32", "bf16"),
		"weights": words(string(trained.Evaluated), string(trained.Current), string(trained.EMA)),
		"model":   completeModel,
		"lora":    folders,
		"run":     folders,
	}
	arguments := map[string]completion{
		"list": first(complete(func() []name {
			var all []name
			for _, k := range kinds() {
				all = append(all, name{Name: k.name})
			}
			return all
		})),
		"train": filesOf("toml"), "plan": filesOf("toml"), "ablate": filesOf("toml"), "pretrain": filesOf("toml"),
		"report": folders, "watch": folders, "compare": folders, "export": folders,
	}
	for _, cmd := range root.Commands() {
		for flag, f := range flags {
			if cmd.Flags().Lookup(flag) != nil {
				if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
					panic("a flag's completion is registered twice: " + err.Error())
				}
			}
		}
		if f := arguments[cmd.Name()]; f != nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = f
		}
	}
}

// complete offers names that begin with the typed text.
func complete(names func() []name) completion {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return offered(names(), "", typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// several is complete where names are separated by commas.
func several(names func() []name) completion {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		return offered(names(), before, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func offered(names []name, before, typed string) []string {
	var all []string
	for _, n := range names {
		if word := before + n.Name; strings.HasPrefix(word, typed) {
			if n.What != "" {
				word += "\t" + n.What
			}
			all = append(all, word)
		}
	}
	return all
}

// sectionNames are those of a kind that 'darkroom list' prints.
func sectionNames(section string) func() []name {
	return func() []name {
		for _, k := range kinds() {
			if k.name == section {
				return k.names()
			}
		}
		return nil
	}
}

func deviceNames() []name {
	return []name{{Name: "auto"}, {Name: "cpu"}, {Name: "cuda:0"}}
}

// words offers words that need no line about them. Of a word that ends with a place to fill in, as mlflow=URL, the
// part before that place is offered.
func words(all ...string) completion {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var names []name
		then := cobra.ShellCompDirectiveNoFileComp
		for _, word := range all {
			word, filled := strings.CutSuffix(word, "URL")
			if strings.HasPrefix(word, typed) {
				names = append(names, name{Name: word})
				if filled {
					then |= cobra.ShellCompDirectiveNoSpace
				}
			}
		}
		return offered(names, "", typed), then
	}
}

// completeModel offers the embedded models, and folders.
func completeModel(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, n := range assets.Names() {
		if strings.HasPrefix(n, typed) {
			all = append(all, n)
		}
	}
	if len(all) > 0 && typed != "" {
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	return folders(cmd, args, typed)
}

// completeSetting offers keys, and behind the = the names that a key takes.
func completeSetting(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	e := experiment.Default()
	key, _, valued := strings.Cut(typed, "=")
	var all []string
	for _, k := range experiment.Keys(&e) {
		switch {
		case k.Table:
		case !valued && strings.HasPrefix(k.Path, typed):
			all = append(all, k.Path+"=\t"+k.Doc)
		case valued && k.Path == key:
			for _, v := range valuesOf(k) {
				if word := key + "=" + v; strings.HasPrefix(word, typed) {
					all = append(all, word)
				}
			}
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// valuesOf are the names that a key takes: its own, or those of its kind.
func valuesOf(k config.Key) []string {
	all := slices.Clone(k.Enum)
	for _, s := range experiment.Sections() {
		if s.Key == k.Path && len(all) == 0 {
			for _, n := range s.Has {
				all = append(all, n.Name)
			}
		}
	}
	return all
}

// folders leaves it to the shell, which offers folders alone.
func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// filesOf offers files that end so.
func filesOf(of string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{of}, cobra.ShellCompDirectiveFilterFileExt
	}
}

// first offers nothing after the first argument.
func first(f completion) completion {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, typed)
	}
}
