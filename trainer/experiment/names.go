package experiment

import (
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What can be written in a file. A solver, a schedule, an estimator or an objective is a value in the file of its
// formula, and a line of sde.Solvers, sde.Grids, advantage.Rules or loss.Objectives.

// A Name is something that can be written, with its card.
type Name struct {
	Name string `json:"name"`
	Card string `json:"card"` // a sentence or two: what it is, and whose
}

// A Section is a kind of names.
type Section struct {
	Name string // as darkroom list knows it
	Key  string // where such a name is written
	Has  []Name
}

// Sections are all names.
func Sections() []Section {
	return []Section{
		{"solvers", "sampler.solver", named(sde.Solvers(), func(s sde.Solver) Name { return Name{Name: s.Name, Card: s.Card} })},
		{"schedules", "sampler.schedule.kind", named(sde.Grids(), func(g sde.Grid) Name { return Name{Name: g.Name, Card: g.Card} })},
		{"windows", "sampler.window.kind", named(sde.Windows(), func(w sde.Window) Name { return Name{Name: w.Name, Card: w.Card} })},
		{"advantages", "advantage.estimator", named(advantage.Rules(), func(r advantage.Rule) Name { return Name{Name: r.Name, Card: r.Card} })},
		{"objectives", "loss.objective", named(loss.Objectives(), func(o loss.Objective) Name { return Name{Name: o.Name, Card: o.Card} })},
		{"kls", "loss.kl.estimator", KLs()},
		{"aggregations", "loss.aggregate", Aggregations()},
		{"rewards", "reward.name", named(Rewards(), func(r RewardKind) Name { return r.Name })},
		{"scalings", "reward.scaling", Scalings()},
		{"monitors", "monitor.watch", Monitors()},
		{"choices", "", Choices()},
		{"rules", "reward.rule", named(answers.All(), func(r answers.Named) Name { return Name{Name: r.Name, Card: r.Card} })},
		{"presets", "preset", named(Presets(), func(p Preset) Name { return p.Name })},
		{"ambiguous", "", Ambiguous()},
	}
}

func named[T any](all []T, name func(T) Name) []Name {
	var names []Name
	for _, x := range all {
		names = append(names, name(x))
	}
	return names
}

// KLs are the ways to measure the distance from the reference.
func KLs() []Name {
	return named(loss.Distances(), func(d loss.Distance) Name { return Name{Name: d.Name, Card: d.Card} })
}

// Aggregations are the ways to average over decisions.
func Aggregations() []Name {
	return named(loss.Averages(), func(a loss.Average) Name { return Name{Name: a.Name, Card: a.Card} })
}

// Scalings are what published projects make of one cosine.
func Scalings() []Name {
	var all []Name
	for _, x := range neural.Scalings() {
		all = append(all, Name{Name: x.Name, Card: x.Card()})
	}
	return all
}
