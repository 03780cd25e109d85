package advantage

// Settings are the settings of all estimators, as one table of a file has them, and what is done with what they make.
type Settings struct {
	Options
	Several
	Shares bool `toml:"shares" doc:"weights of rewards are divided by their sum (MixGRPO)"`
	HistoryOptions
	TrackerOptions
	GPGOptions
	MaxAtKOptions
	BetaOptions
	BestOf int    `toml:"best_of" range:"[0,1e6]" doc:"samples of a group that are trained on, its best and its worst (DanceGRPO); 0: all"`
	BestBy string `toml:"best_by" enum:"advantage,size,drawn" doc:"which samples best_of keeps: the best and the worst (DanceGRPO), those whose advantages are largest, of either sign (CPPO), or the best and drawn others (PF-PPO)"`
	PairOptions
	AllDead string  `toml:"all_dead" enum:"skip,train,stop" doc:"iterations whose advantages are all 0: move nothing, move by what else the objective has, or stop the run"`
	Keep    *Keep   `toml:"keep" of:"tokens" doc:"only some samples of a group are compared, the shortest or the most efficient (GFPO)"`
	Filter  *Filter `toml:"filter" doc:"groups that teach nothing are left out (DAPO)"`
	Turns   *Turns  `toml:"turns" of:"tokens" doc:"turns that begin in one state are compared too, beside whole episodes (GiGPO)"`
	CreditOptions
}

// DefaultSettings are the group estimator's.
func DefaultSettings() Settings {
	return Settings{Options: Defaults(), Several: Several{How: "rewards"}, HistoryOptions: HistoryOptions{HistorySize{Size: 32, Min: 16}}, TrackerOptions: TrackerOptions{Rho: 0.875},
		GPGOptions: GPGOptions{Norm: 1}, MaxAtKOptions: MaxAtKOptions{K: 2}, BetaOptions: BetaOptions{Range: [2]float64{0, 1}}, BestBy: "advantage", AllDead: "skip", CreditOptions: CreditOptions{DefaultCredit()}}
}

// Estimator is the estimator of outcomes by a rule. What it remembers is empty. Rules that look at rewards of tokens
// leave outcomes as Options say.
func (s Settings) Estimator(r Rule) Estimator {
	e := Estimator{Rule: "compare", Options: s.Options, Several: s.Several, Norm: s.Norm, K: s.K, Keep: s.Keep, Range: s.Range}
	if r.Outcome != nil {
		e.Rule = r.Name
	}
	if r.Remember != nil {
		e.History = r.Remember(s)
	}
	return e
}

// OfPictures is the estimator where a sample's decisions share its outcome.
func (s Settings) OfPictures(r Rule) Estimator {
	e := s.Estimator(r)
	e.Keep = nil // pictures have one length
	if r.Samples != nil {
		e.Rule, e.Whiten = r.Name, s.Credit.Whiten
	}
	return e
}

// Check reports what does not fit together.
func (s Settings) Check(report func(key, problem, hint string)) {
	s.Options.Check(report)
	s.HistoryOptions.check(report)
	if s.Filter != nil {
		s.Filter.Check(func(key, problem, hint string) { report("filter."+key, problem, hint) })
	}
	if s.Credit.Whiten.On && s.Credit.Whiten.Eps == 0 {
		report("credit.whiten.eps", "without eps tokens of equal advantages divide by 0", "eps = 1e-8 is what verl uses")
	}
}

// compares are the settings of a comparison.
func compares(over, baseline, scale string) func(*Settings) {
	return func(s *Settings) { s.Over, s.Baseline, s.Scale = over, baseline, scale }
}
