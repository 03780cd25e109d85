package tools

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The one table of protocols, by the names that an experiment's file uses.

// Presets are the protocols with their published settings. Each call makes new ones.
func Presets() map[string]*Protocol {
	all := map[string]*Protocol{}
	for _, p := range []*Protocol{
		Darkroom(), deepEyesV2(), deepEyesV5(), DeepEyesV2(), MiniO3(true), PixelReasoner(nil), PyVision(0.1), verl(), VRAG(false),
	} {
		all[p.Name] = p
	}
	return all
}

// Named is a preset.
func Named(name string) (*Protocol, error) {
	all := Presets()
	if p, ok := all[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("there is no protocol %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// PublishedLimits are the limits that a preset was trained with; nothing for those that name
// none. DeepEyes' are those of its 7B model.
func PublishedLimits(name string) Limits {
	switch name {
	case "deepeyes", "deepeyes_v5":
		return Limits{Tokens: 8192 + 20480, PromptRoom: 8192, Turns: 5, ActFirst: true}
	case "deepeyes_v2":
		return Limits{Turns: 9, ActFirst: true}
	case "mini_o3":
		return Limits{Response: 32768, Margin: 2000, Turns: 6, Pictures: 12}
	case "pixel_reasoner":
		return Limits{Observations: 4}
	case "pyvision":
		return Limits{Response: 20480, Turns: 5, ActFirst: true}
	case "vrag":
		return Limits{Turns: 5} // the fifth must answer
	}
	return Limits{}
}
