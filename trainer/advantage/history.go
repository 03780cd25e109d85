package advantage

import (
	"fmt"
	"maps"
	"slices"
)

// History is DDPO's tracker (Black et al., 2023): a reward is compared with the last Size
// rewards of its prompt, the new ones among them; a prompt with fewer than Min of them is
// compared with the batch.
//
//	a = (r - mean) / (deviation(ddof 0) + 1e-6)   in ddpo-pytorch
//
// It also has the state of the estimator tracker (tracker.go): a checkpoint keeps both. Invariant (tests): with Min =
// 1 and one iteration it is the group estimator; missing rewards are not remembered.
type History struct {
	Size    int                  `json:"size"` // rewards a prompt
	Min     int                  `json:"min"`
	Rewards map[string][]float64 `json:"rewards"`

	// Of Track.
	Rho     float64           `json:"rho,omitempty"` // the kept share of earlier evidence
	Beliefs map[string]Belief `json:"beliefs,omitempty"`
}

// Clone is another history of the same rewards; nil of nil.
func (h *History) Clone() *History {
	if h == nil {
		return nil
	}
	c := *h
	c.Rewards, c.Beliefs = maps.Clone(h.Rewards), maps.Clone(h.Beliefs) // whose values are replaced, never changed
	return &c
}

// Update remembers rewards, and compares them with the memory: the mean and the deviation that o is about are those
// of the prompt's history.
func (h *History) Update(o Options, prompts []string, rewards []float64) ([]float64, error) {
	switch {
	case len(prompts) != len(rewards):
		return nil, fmt.Errorf("%d rewards of %d prompts", len(rewards), len(prompts))
	case h.Size < 1:
		return nil, fmt.Errorf("a history of %d rewards remembers nothing: its size must be at least 1", h.Size)
	}
	if h.Rewards == nil {
		h.Rewards = map[string][]float64{}
	}
	groups, out := presentGroups(numbered(prompts), rewards), everywhere(0, rewards)
	all := slices.Concat(groups...)
	slices.Sort(all)
	batch := pick(rewards, all)
	for _, g := range groups {
		base := h.remember(prompts[g[0]], pick(rewards, g))
		if len(base) < h.Min {
			base = batch
		}
		m, d := mean(base), deviation(base, o.DDOF)
		for _, i := range g {
			out[i] = o.one(rewards[i], m, d, len(base))
		}
	}
	return out, nil
}

// remember is a prompt's last rewards, the new ones last.
func (h *History) remember(prompt string, rewards []float64) []float64 {
	seen := slices.Concat(h.Rewards[prompt], rewards)
	h.Rewards[prompt] = seen[max(0, len(seen)-h.Size):]
	return h.Rewards[prompt]
}

// HistoryOptions are the options of DDPO's rule.
type HistoryOptions struct {
	History HistorySize `toml:"history"`
}

// HistorySize is how many rewards of a prompt are remembered.
type HistorySize struct {
	Size int `toml:"size" range:"[1,1e6]" doc:"rewards kept of a prompt"`
	Min  int `toml:"min" range:"[1,1e6]" doc:"with fewer, a reward is compared with the batch"`
}

func (o HistoryOptions) check(report func(key, problem, hint string)) {
	if o.History.Min > o.History.Size {
		report("history.min", "a prompt never has that many", "min must be at most size")
	}
}

// HistoryRule is DDPO's.
var HistoryRule = Rule{
	Name: "history", Card: "Reward compared with the last rewards of its prompt (DDPO's tracker).",
	Paper: "DDPO (Black et al., 2023)", Formula: "(r - mean) / (dev + eps) of the prompt's last rewards", Cases: []string{"adv.history"},
	Company: WithHistory, Scaled: true, Options: HistoryOptions{},
	Remember: func(s Settings) *History { return &History{Size: s.History.Size, Min: s.History.Min} },
	FirstOf:  func(s Settings) int { return s.History.Min },
	Words: func(s Settings) string {
		return fmt.Sprintf("reward compared with the last rewards of its prompt (%d, from %d on), ddof %d, eps %v", s.History.Size, s.History.Min, s.DDOF, s.Eps)
	},
	Outcome: remembered((*History).Update),
}

// remembered is a rule that learns one reward a sample.
func remembered(learn func(h *History, o Options, prompts []string, r []float64) ([]float64, error)) func(Estimator, Batch) (each, error) {
	return func(e Estimator, b Batch) (each, error) {
		if e.History == nil || e.How == "advantages" || e.How == "gdpo" {
			return nil, fmt.Errorf("estimator %s remembers one reward a sample: give it a History and combine the rewards first", e.Rule)
		}
		return func(r []float64) ([]float64, error) { return learn(e.History, e.Options, b.Prompts, r) }, nil
	}
}
