package advantage

import (
	"fmt"
	"math"
	"strings"
)

// An Estimator is a rule that turns rewards into advantages, with its options. A published
// system is a setting of it.
type Estimator struct {
	// Rule is "compare" for those that Options say, or the name of one of Rules that has a function of its own.
	Rule string
	Options
	Several
	History *History   // the memory of the rules history and tracker
	Norm    float64    // of gpg; 0 is 1
	K       int        // of max-at-k
	Keep    *Keep      // who is compared; nil: all
	Range   [2]float64 // of beta: the range of a reward; equal ends are [0, 1]
	Whiten  Whiten     // of reinforce++: over as many decisions as Batch.Lengths says
}

// Advantages is an advantage a sample, and a monitor's numbers of the rewards. A sample whose reward is missing has
// NaN.
func (e Estimator) Advantages(b Batch) ([]float64, Stats, error) {
	if err := b.check(); err != nil {
		return nil, Stats{}, err
	}
	sum, err := e.Add(b.Rewards, b.weights())
	if err != nil {
		return nil, Stats{}, err
	}
	if e.Keep != nil {
		if b.Rewards, err = e.Keep.kept(b, sum); err != nil {
			return nil, Stats{}, err
		}
	}
	clip := e.Options
	e.Clip = 0 // of the sum, not of every reward
	of, err := e.each(b)
	if err != nil {
		return nil, Stats{}, err
	}
	a, err := e.Several.Of(b.Groups, b.Rewards, b.weights(), of, e.Options)
	for i := range a {
		a[i] = clip.clipped(a[i])
	}
	return a, Measure(b.Groups, sum), err
}

// each is the rule for one reward of a batch.
func (e Estimator) each(b Batch) (each, error) {
	if e.Rule == "compare" || e.Rule == "" {
		return func(r []float64) ([]float64, error) { return e.Options.Of(b.Groups, r) }, nil
	}
	var names []string
	for _, r := range Rules() {
		compare := r.Outcome
		if r.Samples != nil {
			compare = r.Samples
		}
		if compare == nil {
			continue
		}
		if names = append(names, r.Name); r.Name == e.Rule {
			return compare(e, b)
		}
	}
	return nil, fmt.Errorf("there is no estimator %q: use compare, %s", e.Rule, strings.Join(names, ", "))
}

// Settings are the settings of all estimators, as one table of a file has them, and those of later steps.
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

// Estimator is the estimator of outcomes by a rule. Its memory is empty. Rules that look at rewards of tokens leave
// outcomes as Options say.
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

// Check reports settings that contradict each other.
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

// Several rewards a sample become one advantage:
//
//	rewards     Σ w·r, then the estimator (MixGRPO's reward_aggr, Flow-Factory's sum)
//	advantages  Σ w·(estimator of each reward) (MixGRPO's advantage_aggr, DanceGRPO, GenRL)
//	gdpo        the latter, compared once more over the batch (GDPO; Liu et al., 2026; TRL's
//	            normalize_then_sum)
//
// A sample with any reward missing has none: its sum is NaN. With Partial those that are
// there are added up (TRL), and only a sample without any is missing. Weights are used as
// they are given; package rewards can divide them by their sum.
//
// Invariants (tests): one reward of weight 1 is the estimator itself; a reward times 1000
// changes nothing in advantages and gdpo.
type Several struct {
	How     string `toml:"combine" enum:"rewards,advantages,gdpo" doc:"what is added up"`
	Partial bool   `toml:"partial" doc:"add up the rewards that are there"`
}

// an each is an estimator of one reward.
type each = func(rewards []float64) ([]float64, error)

// Of combines rewards[k][sample]; o is the estimator that gdpo compares with once more.
func (s Several) Of(ids []int, rewards [][]float64, weights []float64, of each, o Options) ([]float64, error) {
	if s.How == "rewards" || s.How == "" {
		sum, err := s.Add(rewards, weights)
		if err != nil {
			return nil, err
		}
		return of(sum)
	}
	parts := make([][]float64, len(rewards))
	for k, r := range rewards {
		var err error
		if parts[k], err = of(r); err != nil {
			return nil, fmt.Errorf("reward %d: %w", k, err)
		}
	}
	sum, err := s.Add(parts, weights)
	if err != nil || s.How != "gdpo" {
		return sum, err
	}
	o.Over, o.Baseline, o.Scale, o.Trim = "batch", "mean", "group", 0
	return o.Of(ids, sum)
}

// Add is Σ w·part for every sample.
func (s Several) Add(parts [][]float64, weights []float64) ([]float64, error) {
	if len(parts) != len(weights) || len(parts) == 0 {
		return nil, fmt.Errorf("%d rewards have %d weights", len(parts), len(weights))
	}
	sum := make([]float64, len(parts[0]))
	for i := range sum {
		found := false
		for k, part := range parts {
			if s.Partial && math.IsNaN(part[i]) {
				continue
			}
			sum[i] += float64(weights[k] * part[i])
			found = true
		}
		if !found {
			sum[i] = math.NaN()
		}
	}
	return sum, nil
}
