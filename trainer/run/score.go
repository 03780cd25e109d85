package run

import (
	"errors"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// scores are what rewards said about some pictures.
type scores struct {
	results map[string][]rewards.Result // by reward, one a picture
	trained [][]float64                 // of the rewards that are trained on, in the file's order; NaN: missing
	total   []float64                   // these, combined
}

// score asks every reward about what was made of prompts, a group at a time: judges may compare. What
// e says makes one number of those that are trained on. Of a, some answers are under way.
func (t *training) score(e *experiment.Experiment, a *asking, list []prompts.Prompt, developed []rewards.Item, groups [][]int) (*scores, error) {
	s, err := t.results(e, a, list, developed, groups)
	if err != nil {
		return nil, err
	}
	return s, s.combine(e, list)
}

// results are what score is made of: all but totals.
func (t *training) results(e *experiment.Experiment, a *asking, list []prompts.Prompt, developed []rewards.Item, groups [][]int) (*scores, error) {
	s := &scores{results: map[string][]rewards.Result{}}
	item := func(i int) rewards.Item { return told(developed[i], list[i]) }
	groups = judgeable(developed, groups)
	for k := range t.panel {
		a.begin(&t.panel[k], item, t.panel[k].asked(list, groups))
	}
	for k := range t.panel {
		r := &t.panel[k]
		all, err := t.answers(a, r, item, r.asked(list, groups), len(developed))
		if err != nil {
			return nil, err
		}
		lose(developed, all)
		s.results[r.name] = all
		if e.Rewards[k].Train {
			s.trained = append(s.trained, rewards.Values(all))
		}
	}
	return s, nil
}

// combine makes the totals.
func (s *scores) combine(e *experiment.Experiment, list []prompts.Prompt) (err error) {
	if len(s.trained) == 0 {
		s.total = slices.Repeat([]float64{math.NaN()}, len(list))
		return nil
	}
	s.total, err = e.Combination().For(weightsOf(list), s.trained)
	return err
}

// told is an item with what rewards are told of its prompt.
func told(item rewards.Item, p prompts.Prompt) rewards.Item {
	item.Prompt, item.Meta = p.Text, p.Meta.Map()
	return item
}

// weightsOf are the weights that prompts have of their own; nil where none has any.
func weightsOf(list []prompts.Prompt) []map[string]float64 {
	var own []map[string]float64
	for i, p := range list {
		if p.Weights != nil && own == nil {
			own = make([]map[string]float64, len(list))
		}
		if own != nil {
			own[i] = p.Weights
		}
	}
	return own
}

// asked are the groups that a reward is asked about: a prompt that gives it the weight 0 does not need it.
func (r *judged) asked(list []prompts.Prompt, groups [][]int) [][]int {
	return slices.DeleteFunc(slices.Clone(groups), func(g []int) bool {
		w, ok := list[g[0]].Weights[r.name]
		return ok && w == 0
	})
}

// errNotAsked is why a sample has no score of a reward that its prompt gives the weight 0. Nothing failed.
var errNotAsked = errors.New("the prompt gives this reward the weight 0")

// with is s followed by more.
func (s *scores) with(more *scores) *scores {
	if s == nil {
		return more
	}
	for name, all := range more.results {
		s.results[name] = append(s.results[name], all...)
	}
	for k := range s.trained {
		s.trained[k] = append(s.trained[k], more.trained[k]...)
	}
	s.total = append(s.total, more.total...)
	return s
}

// numbers are a reward's values; NaN: missing.
func (s *scores) numbers(name string) []float64 {
	return rewards.Values(s.results[name])
}

// lines are all rewards' words about sample i.
func (s *scores) lines(i int) map[string]ledger.ScoreLine {
	out := map[string]ledger.ScoreLine{}
	for name, all := range s.results {
		r := all[i]
		line := ledger.ScoreLine{Value: ledger.Number(r.Number()), Parts: r.Parts, Evidence: r.Evidence}
		if r.Missing != nil {
			line = ledger.ScoreLine{Missing: r.Missing.Error()}
		}
		out[name] = line
	}
	return out
}
