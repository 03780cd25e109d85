package experiment

import (
	"os"
	"strings"
	"testing"
)

// docs/conventions.md has a row for every preset, and no other; every preset's settings can be told.
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
