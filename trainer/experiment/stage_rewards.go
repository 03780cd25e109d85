package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a stage changes of rewards: their weights. All rewards are opened, asked and written down in the whole run;
// one whose weight in a stage is 0 is gold there, measured and not trained on.

// weighed are the rewards with a stage's weights.
func (e *Experiment) weighed(s Stage) []Reward {
	if len(s.Weights) == 0 {
		return e.Rewards
	}
	all := slices.Clone(e.Rewards)
	for i := range all {
		if w, ok := s.Weights[all[i].Called()]; ok {
			all[i].Train = w != 0
			if w != 0 {
				all[i].Weight = w
			}
		}
	}
	return all
}

// checkStagesRewards: weights are of rewards that there are, something is trained on in every stage, and it can
// be combined.
func (e *Experiment) checkStagesRewards(r report) {
	var labels []string
	for _, w := range e.Rewards {
		labels = append(labels, w.Called())
	}
	for i, s := range e.Stages {
		key := fmt.Sprintf("stage[%d].weights", i)
		for _, label := range slices.Sorted(maps.Keys(s.Weights)) {
			if !slices.Contains(labels, label) {
				r(key+"."+label, fmt.Sprintf("no reward is called %q", label), "there are "+strings.Join(labels, ", "))
				return
			}
		}
		if len(s.Weights) == 0 && s.Together == e.Together {
			continue
		}
		at := e.at(s)
		if len(at.Combination().Parts) == 0 {
			r(key, "no reward is trained on in this stage", "a weight above 0 for one of "+strings.Join(labels, ", "))
			return
		}
		at.Combination().Check(func(_, problem, hint string) { r(key, problem, hint) })
	}
}
