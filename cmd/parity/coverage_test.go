package main

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestMethodCases: what the table of methods calls a case is an operation.
func TestMethodCases(t *testing.T) {
	ops := Ops()
	holds := func(of string, cases []string) {
		for _, c := range cases {
			if ops[c] == nil {
				t.Errorf("%s: there is no operation %s", of, c)
			}
		}
	}
	for _, m := range experiment.Methods() {
		holds(m.Kind+" "+m.Name, m.Cases)
	}
	for _, p := range tools.Protocols() {
		holds("protocol "+p.Name, p.Cases)
	}
	for _, p := range experiment.Presets() {
		holds("preset "+p.Name.Name, experiment.PresetCases(p.Name.Name))
	}
}
