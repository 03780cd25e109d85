package experiment

import "github.com/darkroom-rl/darkroom/trainer/advantage"

// Advantage is [advantage]. An estimator's name sets keys of this table, which may
// be set otherwise.
type Advantage struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Estimator string `toml:"estimator" doc:"see darkroom list advantages"`
	advantage.Options
	Combine string  `toml:"combine" enum:"rewards,advantages,gdpo" doc:"weigh rewards, or the advantages of each, or these compared over the batch once more"`
	History History `toml:"history"`
}

// History is how many rewards of a prompt are remembered, of the estimator history.
type History struct {
	Size int `toml:"size" range:"[1,1e6]" doc:"rewards kept of a prompt"`
	Min  int `toml:"min" range:"[1,1e6]" doc:"with fewer, a reward is compared with the batch"`
}

func defaultAdvantage() Advantage {
	return Advantage{Estimator: "group", Options: advantage.Defaults(), Combine: "rewards", History: History{Size: 32, Min: 16}}
}

// Check reports what does not fit together.
func (a Advantage) Check(report func(key, problem, hint string)) {
	a.Options.Check(report)
	if a.History.Min > a.History.Size {
		report("history.min", "a prompt never has that many", "min must be at most size")
	}
}
