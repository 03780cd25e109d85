package experiment

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMethods: every estimator, objective and solver has its line, and no other name has one.
func TestMethods(t *testing.T) {
	lines := map[string]int{}
	for _, m := range Methods() {
		lines[m.Kind+" "+m.Name]++
		if m.Paper == "" || m.Formula == "" {
			t.Errorf("%s %s has no paper or no formula", m.Kind, m.Name)
		}
	}
	for _, s := range Sections() {
		if s.Name != "advantages" && s.Name != "objectives" && s.Name != "solvers" {
			continue
		}
		for _, n := range s.Has {
			if key := s.Name + " " + n.Name; lines[key] != 1 {
				t.Errorf("%s has %d lines in Methods, not 1", key, lines[key])
			}
			delete(lines, s.Name+" "+n.Name)
		}
	}
	for key := range lines {
		t.Errorf("%s is in Methods, and is no name", key)
	}
	for name := range presetCases() {
		if !slices.ContainsFunc(Presets(), func(p Preset) bool { return p.Name.Name == name }) {
			t.Errorf("%s has cases, and is no preset", name)
		}
	}
}

// TestCoverage: every row that names a preset or keys is a file without a mistake, every other one says why, each has a
// year and is there once, and every preset is somebody's.
func TestCoverage(t *testing.T) {
	used, seen, year := map[string]bool{}, map[string]bool{}, regexp.MustCompile(`\b20[0-9][0-9]\b`)
	for _, c := range Coverage() {
		asked := c.Preset != "" || len(c.Keys) > 0
		if c.System == "" || c.Paper == "" || asked == (c.Why != "") {
			t.Errorf("%q needs a paper, and either a preset or keys, or a reason", c.System)
		}
		used[c.Preset] = true
		if !year.MatchString(c.Paper) {
			t.Errorf("%s: %q has no year", c.System, c.Paper)
		}
		if seen[c.System] {
			t.Errorf("%s is there twice", c.System)
		}
		seen[c.System] = true
		if !asked {
			continue
		}
		text := least
		if c.Area != "generators" && !c.Draws {
			text = strings.Replace(text, `"jpeg"`, `"format"`, 1) + "[episode]\n"
		}
		if c.Preset != "" {
			text = `preset = "` + c.Preset + "\"\n" + text
		}
		if _, err := Parse("a.toml", []byte(text), c.Keys); err != nil {
			t.Errorf("%s: %v", c.System, err)
		}
	}
	for _, p := range Presets() {
		if !used[p.Name.Name] {
			t.Errorf("no row of Coverage has preset %s", p.Name.Name)
		}
	}
}

// docs/conventions.md has a row for every preset, and no other; every preset's settings can be listed.
func TestConventions(t *testing.T) {
	text, err := os.ReadFile("../../docs/conventions.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRows(string(text))
	for _, p := range Presets() {
		if rows[p.Name.Name] == "" {
			t.Errorf("%s has no row of conventions", p.Name.Name)
		}
		delete(rows, p.Name.Name)
		if cells, err := p.Settings(); err != nil || len(cells) != len(SettingsColumns) {
			t.Errorf("%s: %q, %v", p.Name.Name, cells, err)
		}
	}
	for name := range rows {
		t.Errorf("conventions of %q, which is no preset", name)
	}
}

// tableRows are the rows of a table below its header, by the names in their first cell: one
// row may be of several.
func tableRows(section string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, name := range strings.Split(cells[0], ",") {
			rows[strings.Trim(strings.TrimSpace(name), "`")] = line
		}
	}
	return rows
}
