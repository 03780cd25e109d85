package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestRecipes: every recipe is right and can be planned, says where its numbers are from and what differs, and trains
// on every kind of step that it means to.
func TestRecipes(t *testing.T) {
	source := regexp.MustCompile(`(?m)^# Source: github\.com/\S+ [0-9a-f]{7}`)
	for _, name := range assets.Recipes() {
		text, err := assets.Recipe(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Parse(name+".toml", text, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := e.Plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range p.Warnings {
			t.Logf("%s: %s", name, w)
		}
		if !source.Match(text) || !strings.Contains(string(text), "arXiv:") || !strings.Contains(string(text), "\n# As published") {
			t.Errorf("%s does not say where its numbers are from", name)
		}
		if e.Run.Name != strings.ReplaceAll(name, "_", "-") {
			t.Errorf("%s makes runs named %s", name, e.Run.Name)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if len(line) > 120 && strings.HasPrefix(line, "#") {
				t.Errorf("%s:%d has %d characters", name, i+1, len(line))
			}
		}
	}
}
