package main

import (
	_ "embed"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

//go:embed generator.toml
var generator string

//go:embed zoom.toml
var zoom string

// An entry is a preset with what it is compared under.
type entry struct {
	preset string
	base   string   // of the two files above
	sets   []string // keys that the base cannot have for it
	note   string   // what they are, for people
	why    string   // it is not run
}

// kind is what the preset trains.
func (e entry) kind() string {
	if e.base == zoom {
		return "episodes"
	}
	return "generators"
}

// exceptions are presets that the common configuration does not fit.
var exceptions = map[string]entry{
	"branchgrpo":    {sets: []string{"rollout.group=16", "rollout.prompts_per_iteration=2"}, note: "2 prompts × 16: a group is its tree's leaves"},
	"tempflow":      {sets: []string{"rollout.group=6", "rollout.prompts_per_iteration=5"}, note: "5 prompts × 6: a group is a trunk's branches"},
	"flash_grpo":    {sets: []string{"sampler.window.size=5"}, note: "one of the first 5 of 10 steps, not 10 of 20"},
	"longcat":       {sets: []string{"sampler.window.drop=6"}, note: "6 of 10 steps are not drawn at, not 10 of 16"},
	"single_stream": {sets: []string{"rollout.group=1", "rollout.prompts_per_iteration=32"}, note: "32 prompts × 1"},
	"ddpo":          {why: "it is for variance-preserving models; the embedded generator is a flow"},
}

// entries are all presets, generators first.
func entries() (all []entry) {
	var talk []entry
	for _, p := range experiment.Presets() {
		e := exceptions[p.Name.Name]
		if e.preset = p.Name.Name; strings.Contains(p.Text, "[sampler]") {
			e.base = generator
			all = append(all, e)
			continue
		}
		e.base = zoom
		talk = append(talk, e)
	}
	return append(all, talk...)
}
