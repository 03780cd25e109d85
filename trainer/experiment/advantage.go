package experiment

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Advantage is [advantage]. An estimator's name sets keys of this table, which may
// be set otherwise.
type Advantage struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Estimator string `toml:"estimator" doc:"see darkroom list advantages"`
	advantage.Settings
}

func defaultAdvantage() Advantage {
	return Advantage{Estimator: "group", Settings: advantage.DefaultSettings()}
}

// rule is the estimator's; one without a name where the file's name is unknown.
func (a Advantage) rule() advantage.Rule {
	r, _ := advantage.RuleNamed(a.Estimator)
	return r
}

// Check reports settings that contradict each other.
func (a Advantage) Check(report func(key, problem, hint string)) {
	a.Settings.Check(report)
	if check := a.rule().Check; check != nil {
		check(a.Settings, report)
	}
}

// Rule is the estimator of outcomes.
func (a Advantage) Rule() advantage.Estimator { return a.Settings.Estimator(a.rule()) }

// OfPictures is the estimator where a sample's decisions share its outcome.
func (a Advantage) OfPictures() advantage.Estimator { return a.Settings.OfPictures(a.rule()) }

// EachReward reports whether rewards are compared each by itself, and not their sum.
func (a Advantage) EachReward() bool { return a.How == "advantages" || a.How == "gdpo" }

// words describe an advantage.
func (a Advantage) words(tokens bool) string {
	s := a.Estimator + ": " + a.compared()
	if a.Clip > 0 {
		s += fmt.Sprintf(", cut to ±%v", a.Clip)
	}
	if a.EachReward() {
		s += ", each reward by itself"
	}
	if k := a.Keep; k != nil {
		s += fmt.Sprintf("; of a group the %s %d are compared", map[string]string{"length": "shortest", "efficiency": "most efficient"}[k.By], k.Of)
	}
	if a.BestOf > 0 {
		s += fmt.Sprintf("; %s %d are trained on", map[string]string{"advantage": "the best and worst", "size": "the largest", "drawn": "the best and drawn others,"}[a.BestBy], a.BestOf)
	}
	if a.Filter != nil {
		s += "; groups are left out by " + a.Filter.By
		if a.Filter.Compared {
			s += ", after they were compared"
		}
	}
	if !tokens {
		return s
	}
	switch c := a.Credit; c.How {
	case "gae":
		s += fmt.Sprintf(", γ %v, λ %v, observations %s", c.Gamma, c.Lambda, c.Observations)
	case "spread":
		s += "; every token has its answer's"
	}
	if a.Credit.Whiten.On {
		s += ", whitened over the batch's tokens"
	}
	return s
}

// compared is the rule, and its options where it has some.
func (a Advantage) compared() string {
	switch r := a.rule(); {
	case r.Words != nil:
		return r.Words(a.Settings)
	case r.Compared():
		return a.Options.Words()
	default:
		card, _, _ := strings.Cut(r.Card, " (")
		return strings.TrimSuffix(strings.ToLower(card[:1])+card[1:], ".")
	}
}

// The meaning of [[reward]], [advantage] and [loss]: options of packages rewards, advantage and loss. All decisions
// are the file's, but for those named in comments.

// Combination is how the trained rewards become one.
func (e *Experiment) Combination() rewards.Combination {
	c := rewards.Combination{By: e.Together.Combine, Disagreement: e.Together.Disagreement, Shares: e.Advantage.Shares, Partial: e.Advantage.Partial}
	for _, r := range e.Rewards {
		if r.Train {
			c.Parts = append(c.Parts, rewards.Part{Name: r.Called(), Weight: r.Weight, Scale: r.Scale, Gate: r.Gate})
		}
	}
	return c
}

// Combined are the compared scores of the trained rewards, and their weights: their sum, or each by itself where
// advantages are added up.
func (e *Experiment) Combined(scores [][]float64) (compared [][]float64, weights []float64, err error) {
	c := e.Combination()
	if e.Advantage.How == "rewards" {
		sum, err := c.Of(scores)
		return [][]float64{sum}, nil, err
	}
	if compared, err = c.Each(scores); err != nil {
		return nil, nil, err
	}
	weights, err = c.Weights()
	return compared, weights, err
}

// Estimator is the estimator of outcomes, for the experiment's modality.
func (e *Experiment) Estimator() advantage.Estimator {
	if e.Episode != nil {
		return e.Advantage.Rule()
	}
	return e.Advantage.OfPictures()
}

// Comparison is the rule of the estimator's name.
func (e *Experiment) Comparison() advantage.Rule { return e.Advantage.rule() }

// ComparesGroups reports whether a sample is compared with the mean of its group: pairs are compared with each other,
// the best of a group is learned from, weights compare nothing.
func (e *Experiment) ComparesGroups() bool {
	return e.Kind().Has(loss.Advantages) && e.Comparison().GroupMean
}

// Shaped is an answer's reward before it is compared.
func (e Episode) Shaped(reward float64, tokens int, truncated bool) float64 {
	if e.Truncated != nil {
		reward = advantage.StopProperly(reward, *e.Truncated, truncated)
	}
	if e.Overlong != nil {
		reward += e.Overlong.Penalty(tokens)
	}
	return reward
}
