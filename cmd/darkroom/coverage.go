package main

import (
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The page of published systems, docs/coverage.md.

const coverageHead = `# Published systems, and what asks for them

Written by ` + "`go generate ./cmd/darkroom`" + `. A preset goes at the top of a file (` + "`preset = NAME`" + `). Keys are written as for
` + "`--set`" + `; replace the words in capitals. A test reads every row with a preset or keys as a file, and finds no mistake in
it. What a method computes, and which recorded cases check it: [methods.md](methods.md).
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
}

// coverageNames are the systems for darkroom list.
func coverageNames() []name {
	var all []name
	for _, c := range experiment.Coverage() {
		all = append(all, name{"coverage", c.System, c.How()})
	}
	return all
}
