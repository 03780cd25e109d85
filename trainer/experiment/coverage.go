package experiment

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

//go:embed coverage.toml
var coverageFile string

// A Covered is a published system with the preset or the keys that ask for it, or with the reason that nothing does.
// coverage.toml lists all; docs/coverage.md is written from it, and a test reads every row as a file.
type Covered struct {
	Area   string   `toml:"-"` // "tokens", "recipes", "generators", "rewards" or "frameworks"
	System string   // its name
	Paper  string   // whose it is
	Preset string   // that asks for it
	Keys   []string // that ask for it, in place of a preset or beside it
	Note   string   // left out, or required
	Why    string   // it cannot be asked for
	Draws  bool     // it is of a generator, among rewards
}

// How is the TOML that asks for the system.
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

// Coverage is every row of coverage.toml, in the order of the page.
func Coverage() []Covered {
	d := toml.NewDecoder(strings.NewReader(coverageFile)).DisallowUnknownFields()
	var areas struct{ Tokens, Recipes, Generators, Rewards, Frameworks []Covered }
	if err := d.Decode(&areas); err != nil {
		panic(err) // embedded
	}
	var all []Covered
	for _, area := range []struct {
		name string
		rows []Covered
	}{{"tokens", areas.Tokens}, {"recipes", areas.Recipes}, {"generators", areas.Generators}, {"rewards", areas.Rewards}, {"frameworks", areas.Frameworks}} {
		for _, c := range area.rows {
			c.Area = area.name
			all = append(all, c)
		}
	}
	return all
}
