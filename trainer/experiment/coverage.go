package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Which published systems a file can ask for: docs/coverage.md is written from it,
// and a test reads every row as a file.

// A Covered is a published system with what asks for it, or with why nothing does.
type Covered struct {
	Area   string // "tokens", "recipes", "generators", "rewards" or "frameworks"
	System string
	Paper  string   // whose it is
	Preset string   // that asks for it
	Keys   []string // that ask for it, in place of a preset or beside it
	Note   string   // what is left out, or has to be there
	Why    string   // it cannot be asked for
	Draws  bool     // it is of a generator, among rewards
}

// How is what a file says to ask for the system.
func (c Covered) How() string {
	var parts []string
	switch {
	case c.Why != "":
		return "not expressible: " + c.Why
	case c.Preset != "":
		parts = append(parts, fmt.Sprintf("preset `%s`", c.Preset))
	}
	if len(c.Keys) > 0 {
		parts = append(parts, "keys `"+strings.Join(c.Keys, "`, `")+"`")
	}
	how := strings.Join(parts, " with ")
	if c.Note != "" {
		how += "; " + c.Note
	}
	return how
}

// Coverage is all that is listed.
func Coverage() []Covered {
	return slices.Concat(in("tokens", tokenCoverage()), in("recipes", recipeCoverage()), in("generators", generatorCoverage()),
		in("rewards", rewardCoverage()), in("frameworks", frameworkCoverage()))
}

func in(area string, all []Covered) []Covered {
	for i := range all {
		all[i].Area = area
	}
	return all
}
