package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [KIND]",
		Short: "Print the names that can be used, with a line each",
		Long: `Print the names that can be used, with a line each. KIND is one of
` + kindNames() + `; without it, everything is printed.`,
		Example: "  darkroom list\n  darkroom list paths --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []name
			for _, k := range kinds() {
				if len(args) == 0 || args[0] == k.name {
					names = append(names, k.names()...)
				}
			}
			if names == nil {
				return usagef("unknown kind %q; it must be one of %s", args[0], kindNames())
			}
			return emit(cmd, names, func(w io.Writer) {
				t := table{header: []string{"KIND", "NAME", "WHAT"}}
				for _, n := range names {
					t.add(n.Kind, n.Name, n.What)
				}
				t.write(w)
			})
		},
	}
}

// A name is something that can be written in a config or on a command line.
type name struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	What string `json:"what"`
}

// A kind is a family of names.
type kind struct {
	name  string
	names func() []name
}

func kinds() []kind {
	return []kind{{"paths", pathNames}}
}

func kindNames() string {
	var s []string
	for _, k := range kinds() {
		s = append(s, k.name)
	}
	return strings.Join(s, ", ")
}

// pathNames are the values of DARKROOM_CPU.
func pathNames() []name {
	what := [...]string{
		isa.Plain:  "plain Go: the definition of every op's bits",
		isa.AVX2:   "AVX2, FMA and F16C",
		isa.AVX512: "AVX-512 F, BW, DQ and VL",
		isa.BF16:   "AVX-512 with bf16 products",
		isa.AMX:    "AMX tiles with bf16 products",
	}
	var all []name
	for p, w := range what {
		if isa.Path(p) > isa.Best() {
			w += " (this CPU lacks it)"
		}
		all = append(all, name{"paths", isa.Path(p).String(), w})
	}
	return all
}
