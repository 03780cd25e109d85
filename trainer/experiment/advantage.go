package experiment

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Advantage is [advantage]. An estimator's name sets keys of this table, which may
// be set otherwise.
type Advantage struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Estimator string `toml:"estimator" doc:"see darkroom list advantages"`
	advantage.Options
	advantage.Several
	Shares  bool              `toml:"shares" doc:"weights of rewards are divided by their sum (MixGRPO)"`
	History History           `toml:"history" of:"history"`
	Rho     float64           `toml:"rho" range:"[0,1)" of:"tracker" doc:"of tracker: how much of what is known of a prompt stays when it is rolled again"`
	Norm    float64           `toml:"norm" range:"(0,inf)" of:"gpg" doc:"of gpg: what advantages are divided by"`
	K       int               `toml:"k" range:"[2,1e6]" of:"max-at-k" doc:"of max-at-k: the best of how many samples is trained for"`
	Range   [2]float64        `toml:"range" of:"beta" doc:"of beta: the least and the largest reward that a sample can have"`
	BestOf  int               `toml:"best_of" range:"[0,1e6]" doc:"samples of a group that are trained on, its best and its worst (DanceGRPO); 0: all"`
	BestBy  string            `toml:"best_by" enum:"advantage,size,drawn" doc:"which samples best_of keeps: the best and the worst (DanceGRPO), those whose advantages are largest, of either sign (CPPO), or the best and drawn others (PF-PPO)"`
	Margin  float64           `toml:"margin" range:"[0,inf)" of:"objective=pairs" doc:"of objective dpo: pairs whose scores lie closer are left out"`
	AllDead string            `toml:"all_dead" enum:"skip,train,stop" doc:"iterations whose advantages are all 0: move nothing, move by what else the objective has, or stop the run"`
	Keep    *advantage.Keep   `toml:"keep" of:"tokens" doc:"only some samples of a group are compared, the shortest or the most efficient (GFPO)"`
	Filter  *advantage.Filter `toml:"filter" doc:"groups that teach nothing are left out (DAPO)"`
	Turns   *advantage.Turns  `toml:"turns" of:"tokens" doc:"turns that begin in one state are compared too, beside whole episodes (GiGPO)"`
	Credit  advantage.Credit  `toml:"credit" of:"tokens,reinforce++,reinforce++-baseline" doc:"how the tokens of an answer share what it earned"`
}

// History is how many rewards of a prompt are remembered, of the estimator history.
type History struct {
	Size int `toml:"size" range:"[1,1e6]" doc:"rewards kept of a prompt"`
	Min  int `toml:"min" range:"[1,1e6]" doc:"with fewer, a reward is compared with the batch"`
}

func defaultAdvantage() Advantage {
	return Advantage{Estimator: "group", Options: advantage.Defaults(), Several: advantage.Several{How: "rewards"}, History: History{Size: 32, Min: 16}, Rho: 0.875, Norm: 1, K: 2, Range: [2]float64{0, 1}, BestBy: "advantage", AllDead: "skip", Credit: advantage.DefaultCredit()}
}

// Check reports what does not fit together.
func (a Advantage) Check(report func(key, problem, hint string)) {
	a.Options.Check(report)
	if a.Estimator == "beta" && a.Range[0] >= a.Range[1] {
		report("range", fmt.Sprintf("no reward lies between %g and %g", a.Range[0], a.Range[1]), "the least first, as in [0, 1]")
	}
	if a.History.Min > a.History.Size {
		report("history.min", "a prompt never has that many", "min must be at most size")
	}
	if a.Filter != nil {
		a.Filter.Check(under("filter", report))
	}
	if a.Credit.Whiten.On && a.Credit.Whiten.Eps == 0 {
		report("credit.whiten.eps", "without eps tokens of equal advantages divide by 0", "eps = 1e-8 is what verl uses")
	}
}
