package main

import (
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The page of published systems, docs/coverage.md.

const coverageHead = `# Published systems, and what asks for them

Written by ` + "`go generate ./cmd/darkroom`" + `. A preset goes at the top of a file (` + "`preset = NAME`" + `). Keys are written as for
` + "`--set`" + `; replace the words in capitals. A test reads every row with a preset or keys as a file, and finds no mistake in
it. What a method computes, and which recorded cases check it: [methods.md](methods.md).
`

const differsHead = `
## What is not as published

Each preset and recipe has a file of its source's numbers (` + "`trainer/experiment/presets/published`" + ` and
` + "`assets/recipes/published`" + `): repository, commit, file, key and value. A test compares all of them with what the
preset or the recipe sets. What has another number here, or no key, is in this table with its reason.

| preset or recipe | key, or what it is there | here | published | why |
|---|---|---|---|---|
`

// writeCoverage writes docs/coverage.md.
func writeCoverage(w io.Writer) {
	fmt.Fprint(w, coverageHead)
	for _, area := range [][2]string{{"tokens", "Language models, with and without vision"}, {"recipes", "Recipes for vision-language models"}, {"generators", "Generators of pictures and clips"},
		{"rewards", "Rewards"}, {"frameworks", "What frameworks are known for"}} {
		fmt.Fprintf(w, "\n## %s\n\n| system | whose | asked for by |\n|---|---|---|\n", area[1])
		for _, c := range experiment.Coverage() {
			if c.Area == area[0] {
				fmt.Fprintf(w, "| %s | %s | %s |\n", cell(c.System), cell(c.Paper), cell(c.How()))
			}
		}
	}
	fmt.Fprint(w, differsHead)
	row := func(of string, all []experiment.Departure) {
		for _, d := range all {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", of, cell(d.Key), cell(d.Value), cell(d.Published), cell(d.Reason))
		}
	}
	for _, p := range experiment.Presets() {
		row("`"+p.Name.Name+"`", held(p.Departures()))
	}
	for _, name := range assets.Recipes() {
		row("recipe `"+name+"`", held(experiment.RecipeDepartures(name)))
	}
}

// coverageNames are the systems for darkroom list.
func coverageNames() []name {
	var all []name
	for _, c := range experiment.Coverage() {
		all = append(all, name{Kind: "coverage", Name: c.System, What: c.How()})
	}
	return all
}
