package advantage

import "fmt"

// The tracker of single-stream SPO (Xu and Ding, 2025; verl's recipe/spo): one sample a prompt is compared with its
// prompt's expected reward, the mean of a Beta distribution that forgets,
//
//	a = r - α/(α+β)         then over the batch's deviation
//	α ← ρα + r              β ← ρβ + (1 - r)
//
// A new prompt begins with α = β = 1/2, as upstream does without offline values. Rewards lie from 0 to 1. Upstream's
// default ρ follows the policy, 2^(-D/0.06) cut to [0.875, 0.96] with D the mean size of the log-ratio of the
// prompt's last answer; that takes a further evaluation of every prompt, and is not built in: ρ is a constant, its
// other form. Several samples of a prompt are all compared with the belief before them, and then counted one after
// another; upstream counts the last alone.
//
// Invariants (tests): the expectation comes to a constant reward; a missing reward changes nothing.

// A Belief is a Beta distribution.
type Belief struct {
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
}

// expected is the mean.
func (b Belief) expected() float64 { return b.Alpha / (b.Alpha + b.Beta) }

// Track compares rewards with their prompts' expected rewards, by o over the batch, and learns them.
func (h *History) Track(o Options, prompts []string, rewards []float64) ([]float64, error) {
	switch {
	case len(prompts) != len(rewards):
		return nil, fmt.Errorf("%d rewards of %d prompts", len(rewards), len(prompts))
	case !(h.Rho >= 0 && h.Rho < 1):
		return nil, fmt.Errorf("a tracker that forgets by %g: rho must be from 0 to below 1", h.Rho)
	}
	if h.Beliefs == nil {
		h.Beliefs = map[string]Belief{}
	}
	ahead := make([]float64, len(rewards))
	for i, r := range rewards {
		if r < 0 || r > 1 {
			return nil, fmt.Errorf("a reward of %g: estimator tracker expects rewards from 0 to 1 (reward.scale maps them)", r)
		}
		ahead[i] = r - h.belief(prompts[i]).expected()
	}
	for i, r := range rewards {
		if r == r {
			b := h.belief(prompts[i])
			h.Beliefs[prompts[i]] = Belief{float64(h.Rho*b.Alpha) + r, float64(h.Rho*b.Beta) + (1 - r)}
		}
	}
	return o.Of(make([]int, len(ahead)), ahead)
}

// belief is a prompt's, or that of a new one.
func (h *History) belief(prompt string) Belief {
	if b, ok := h.Beliefs[prompt]; ok {
		return b
	}
	return Belief{0.5, 0.5}
}

// TrackerOptions are the options of the tracker.
type TrackerOptions struct {
	Rho float64 `toml:"rho" range:"[0,1)" doc:"of tracker: how much of what is known of a prompt stays when it is rolled again"`
}

// TrackerRule is single-stream policy optimisation's.
var TrackerRule = Rule{
	Name: "tracker", Card: "Reward less what its prompt is expected to earn, a Beta distribution that forgets, over the batch's deviation; one sample a prompt will do (SPO, single-stream).",
	Paper: "SPO, single-stream (Xu and Ding, 2025)", Formula: "r - α/(α+β), over the batch's dev; then α ← ρα + r, β ← ρβ + (1 - r)", Cases: []string{"methods.adv_spo"},
	Company: WithHistory, Scaled: true, Options: TrackerOptions{}, Set: compares("batch", "mean", "group"),
	Remember: func(s Settings) *History { return &History{Rho: s.Rho} },
	Takes:    func(Settings) [2]float64 { return [2]float64{0, 1} },
	Outcome:  remembered((*History).Track),
}
