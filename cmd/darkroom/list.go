package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest/bench"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

func listCommand() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "Print the names that can be used, with a line each",
		Long: `Print the names that can be used, with a line each. KIND is one of
` + kindNames() + `; without it, everything is printed.`,
		Example: "  darkroom list\n  darkroom list solvers\n  darkroom list paths --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if markdown {
				for _, p := range pages() {
					if len(args) == 1 && args[0] == p.kind {
						return console.Emit(cmd, p.names(), p.write)
					}
				}
				return exits.Usagef("--markdown is of keys, methods, coverage, elsewhere or weights\nhint: darkroom list keys --markdown")
			}
			var names []name
			for _, k := range kinds() {
				if len(args) == 0 || args[0] == k.name {
					names = append(names, k.names()...)
				}
			}
			if names == nil {
				return exits.Usagef("unknown kind %q; it must be one of %s", args[0], kindNames())
			}
			return console.Emit(cmd, names, func(w io.Writer) {
				t := console.Table{Header: []string{"KIND", "NAME", "WHAT"}}
				for _, n := range names {
					t.Add(n.Kind, n.Name, n.What)
					for _, d := range n.Differs {
						t.Add("", "", "differs: "+d.String())
					}
				}
				t.Write(w)
			})
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "of keys, methods, coverage, elsewhere or weights: the page docs/config.md, methods.md, coverage.md, elsewhere.md or rewards.md")
	return cmd
}

// A name is something that can be written in a config or on a command line.
type name struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	What string `json:"what"`

	// Differs has the departures of presets and recipes from the publication.
	Differs []experiment.Departure `json:"differs,omitempty"`
}

// A kind is a family of names.
type kind struct {
	name  string
	names func() []name
}

func kinds() []kind {
	all := []kind{{"models", modelNames}, {"families", familyNames}, {"examples", exampleNames}, {"recipes", recipeNames}, {"paths", pathNames}, {"ops", opNames}, {"benchmarks", benchmarkNames}, {"tools", toolNames}, {"protocols", protocolNames}, {"keys", configKeys}}
	for _, s := range experiment.Sections() {
		all = append(all, kind{s.Name, func() []name {
			var names []name
			for _, n := range s.Has {
				names = append(names, name{Kind: s.Name, Name: n.Name, What: n.Card})
			}
			if s.Name == "presets" {
				return presetsDiffer(names)
			}
			return names
		}})
	}
	return append(all, kind{"methods", methodNames}, kind{"coverage", coverageNames}, kind{"elsewhere", elsewhereNames}, kind{"weights", weightNames})
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
		isa.NEON:   "Advanced SIMD, of 64-bit Arm",
	}
	var all []name
	for p, w := range what {
		if !slices.Contains(isa.Paths(), isa.Path(p)) {
			w += " (this CPU lacks it)"
		}
		all = append(all, name{Kind: "paths", Name: isa.Path(p).String(), What: w})
	}
	return all
}

// opNames are the operations of the engine, with the arguments of each.
func opNames() []name {
	var all []name
	backend := reflect.TypeFor[kernels.Backend]()
	for i := range backend.NumMethod() {
		m := backend.Method(i)
		if m.Type.NumIn() != 1 || m.Type.In(0).Kind() != reflect.Pointer {
			continue // memory, names
		}
		operands := m.Type.In(0).Elem()
		if operands.Name() != m.Name {
			continue
		}
		var fields []string
		for i := range operands.NumField() {
			f := operands.Field(i)
			if f.Anonymous {
				f.Name = "all of " + f.Name + ","
			}
			fields = append(fields, f.Name)
		}
		all = append(all, name{Kind: "ops", Name: m.Name, What: strings.Join(fields, " ")})
	}
	return all
}

// benchmarkNames are the families that bench runs.
func benchmarkNames() []name {
	var all []name
	for _, f := range bench.Families() {
		all = append(all, name{Kind: "benchmarks", Name: f, What: "darkroom bench " + f})
	}
	return all
}

// modelNames are the models that are part of the program.
func modelNames() []name {
	what := map[string]string{
		"embed:tiny-sd3":          "a StableDiffusion3Pipeline that draws scenes of 64 x 64 pixels",
		"embed:tiny-clip":         "a CLIPModel that tells such scenes apart, and ranks them as drawn above damaged",
		"embed:tiny-vlm":          "a Qwen2.5-VL that answers questions about tables of cards, and may look closer",
		"embed:tiny-kontext":      "a FluxKontextPipeline that changes scenes of 32 x 32 pixels: their things' colours, or a thing less",
		"embed:tiny-mask2former":  "a Mask2FormerForUniversalSegmentation that finds circles, squares, triangles and letters in scenes of 64 x 64 pixels",
		"embed:tiny-wan":          "a WanImageToVideoPipeline that makes the thing of a picture move, in clips of five frames of 32 x 32",
		"embed:tiny-wan-64-noisy": "embed:tiny-wan-64 after wrong captions: unsure where things go",
		"embed:tiny-wan-64":       "a WanImageToVideoPipeline that makes the thing of a picture move, and turn half way, in clips of nine frames of 64 x 64",
	}
	var names []name
	for _, n := range assets.Names() {
		names = append(names, name{Kind: "models", Name: n, What: what[n]})
	}
	return names
}

// familyNames are the pipelines of diffusers that can be opened.
func familyNames() []name {
	var names []name
	for _, f := range pipeline.Families() {
		names = append(names, name{Kind: "families", Name: f.Class, What: fmt.Sprintf("%s. %s (%s)", f.Name, f.Card, f.Paper)})
	}
	return names
}

// toolNames are the tools that episodes have without a program outside: episode.tools.
func toolNames() []name {
	var names []name
	for _, b := range tools.Builtins() {
		if b.Card != "" {
			names = append(names, name{Kind: "tools", Name: b.Name, What: b.Card})
		}
	}
	return names
}

// protocolNames are the forms of calls: episode.protocol.
func protocolNames() []name {
	var names []name
	for _, p := range tools.Protocols() {
		names = append(names, name{Kind: "protocols", Name: p.Name, What: p.Card})
	}
	return names
}

// exampleNames are the experiments that are part of the program: darkroom train --example NAME.
func exampleNames() []name { return tomlNames("examples", assets.Configs(), assets.Config) }

// recipeNames are the published experiments: darkroom init --recipe NAME.
func recipeNames() []name {
	names := tomlNames("recipes", assets.Recipes(), assets.Recipe)
	for i, n := range names {
		names[i].Differs = held(experiment.RecipeDepartures(n.Name))
	}
	return names
}

// presetsDiffer adds departures from the publication.
func presetsDiffer(names []name) []name {
	for i, p := range experiment.Presets() {
		names[i].Differs = held(p.Departures())
	}
	return names
}

// held are the departures; a test reads all presets and recipes.
func held(all []experiment.Departure, err error) []experiment.Departure {
	if err != nil {
		panic(err) // embedded
	}
	return all
}

func tomlNames(kind string, all []string, read func(name string) ([]byte, error)) []name {
	var names []name
	for _, n := range all {
		text, err := read(n)
		if err != nil {
			continue // it was listed
		}
		names = append(names, name{Kind: kind, Name: n, What: firstSentence(string(text))})
	}
	return names
}

// firstSentence is that of the comment that a file begins with.
func firstSentence(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		line, comment := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !comment {
			break
		}
		words = append(words, strings.Fields(line)...)
	}
	said, _, _ := strings.Cut(strings.Join(words, " ")+" ", ". ")
	return strings.TrimSuffix(strings.TrimSpace(said), ".")
}

// configKeys are the keys of an experiment's file: the values of each, its default, and its sentence.
func configKeys() []name {
	var all []name
	e := experiment.Default()
	for _, k := range experiment.Keys(&e) {
		all = append(all, name{Kind: "keys", Name: k.Path, What: keyText(k)})
	}
	return all
}

// keyText describes a key: "a number in (0,inf), default 0.0003; learning rate".
func keyText(k config.Key) string {
	s := k.Kind
	switch {
	case k.Enum != nil:
		s = "one of " + strings.Join(quotedAll(k.Enum), ", ")
	case k.Range != "":
		s += " in " + k.Range
	}
	switch {
	case k.Required:
		s += ", must be written"
	case k.Default != "":
		s += ", default " + k.Default
	case k.Absent:
		s += ", off unless written"
	}
	if k.Doc != "" {
		s += ": " + k.Doc
	}
	if k.Of != "" {
		s += fmt.Sprintf(" [read by %s]", strings.ReplaceAll(k.Of, ",", ", "))
	}
	return s
}

func quotedAll(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf("%q", n))
	}
	return all
}
