package answers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Card: one rule a domain. The prompt's meta.domain says which (of rows in verl's form, their data_source); a domain
// that no rule is named for goes by Other, and without one it has no score. Which rule judged is a part of the
// evidence. Invariant (test): a reply scores as by the rule alone.
type Domains struct {
	Rules map[string]rewards.Reward
	Other rewards.Reward // nil: no other rule
}

// Score asks the domain's rule.
func (d Domains) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	domain, err := item.Meta.Text("domain")
	rule, ok := d.Rules[domain]
	switch {
	case ok && err == nil:
	case d.Other != nil:
		rule = d.Other
	case err != nil:
		return rewards.Score{}, err
	default:
		return rewards.Score{}, fmt.Errorf("no rule is named for the domain %q; there are %s", domain, strings.Join(slices.Sorted(maps.Keys(d.Rules)), ", "))
	}
	s, err := rule.Score(ctx, item)
	if err == nil {
		s.Because("domain", "%s", domain)
	}
	return s, err
}

// RulesKey is a rule a domain.
type RulesKey struct {
	Rules map[string]string `toml:"rules" doc:"a rule by the prompt's meta.domain (of verl's rows, their data_source), in place of rule, which the others go by where it is written: { chart = \"relaxed\", math = \"boxed\" }"`
}

// ruleKeys are of rewards that ask a rule who is right.
type ruleKeys struct {
	RuleKey
	RulesKey
}

// check refuses names of rules that there are not; of is the reward.
func (k ruleKeys) check(of string, report rewards.Report) {
	CheckRule("rule", k.Rule, of, report)
	for _, domain := range slices.Sorted(maps.Keys(k.Rules)) {
		CheckRule("rules."+domain, k.Rules[domain], of, report)
	}
}

// reward is the rule, or that of each domain, and the one for all others.
func (k ruleKeys) reward() (rewards.Reward, error) {
	if len(k.Rules) == 0 {
		return named(k.Rule, false)
	}
	d := Domains{Rules: map[string]rewards.Reward{}}
	for domain, name := range k.Rules {
		rule, err := named(name, false)
		if err != nil {
			return nil, err
		}
		d.Rules[domain] = rule
	}
	if rule, err := named(k.Rule, false); err == nil && k.Rule != "" {
		d.Other = rule
	}
	return d, nil
}

// bounds are those of the rules' scores.
func (k ruleKeys) bounds() *rewards.Bounds {
	switch all := append(slices.Collect(maps.Values(k.Rules)), k.Rule); {
	case slices.Contains(all, "weighted"):
		return nil
	case slices.Contains(all, "giou"):
		return &rewards.Bounds{Low: 0, High: 2}
	case slices.Contains(all, "dapo"):
		return &rewards.Bounds{Low: -1, High: 1}
	}
	return &rewards.Bounds{Low: 0, High: 1}
}

// AccuracyKind is reward accuracy.
var AccuracyKind = rewards.Kind{
	Name:    "accuracy",
	Card:    "An answer that is right.",
	Paper:   "each rule's (darkroom list rules)",
	Cases:   []string{"vlm.answer_boxed", "vlm.answer_dapo", "vlm.answer_em", "vlm.answer_gsm8k", "vlm.reward_answer_default", "vlm.reward_yes_no", "vlm.reward_mcq", "vlm.reward_mra", "vlm.reward_ndcg", "vlm.reward_anls", "vlm.reward_giou", "vlm.reward_od"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: accuracyKeys{},
	Takes:   rewards.With(func(k accuracyKeys) int64 { return k.DetectorTakes() }),
	Check:   rewards.Checks(func(k accuracyKeys, report rewards.Report) { k.check("accuracy", report) }),
	Bounds:  rewards.With(func(k accuracyKeys) *rewards.Bounds { return k.bounds() }),
	Open:    rewards.Opens(accuracyKeys.open),
}
