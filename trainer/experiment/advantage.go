package experiment

import "github.com/darkroom-rl/darkroom/trainer/advantage"

// Advantage is [advantage]. An estimator's name sets keys of this table, which may
// be set otherwise.
type Advantage struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Estimator string `toml:"estimator" doc:"see darkroom list advantages"`
	advantage.Options
	advantage.Several
	History History `toml:"history"`
	Gamma   float64 `toml:"gamma" range:"[0,1]" doc:"of gae and reinforce++: how much a token counts for the one before it"`
	Lambda  float64 `toml:"lambda" range:"[0,1]" doc:"of gae: 1 trusts rewards, 0 the value network"`
}

// History is how many rewards of a prompt are remembered, of the estimator history.
type History struct {
	Size int `toml:"size" range:"[1,1e6]" doc:"rewards kept of a prompt"`
	Min  int `toml:"min" range:"[1,1e6]" doc:"with fewer, a reward is compared with the batch"`
}

func defaultAdvantage() Advantage {
	return Advantage{Estimator: "group", Options: advantage.Defaults(), Several: advantage.Several{How: "rewards"}, History: History{Size: 32, Min: 16}, Gamma: 1, Lambda: 1}
}

// Check reports what does not fit together.
func (a Advantage) Check(report func(key, problem, hint string)) {
	a.Options.Check(report)
	if a.History.Min > a.History.Size {
		report("history.min", "a prompt never has that many", "min must be at most size")
	}
}
