package experiment

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
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

// Check reports what does not fit together.
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

// words say what an advantage is.
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
