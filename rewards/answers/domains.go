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
	Other rewards.Reward // nil: there is none
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
