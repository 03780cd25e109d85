package advantage

import "fmt"

// Turns compares turns beside whole episodes (GiGPO; Feng et al., 2025: groups in groups). Turns of one prompt's
// episodes that begin in the same state form a group, whose members differ in their actions there:
//
//	R(k) = r(k) + Gamma·R(k+1)    rewards to come of a turn, discounted by turns
//	a    = R - mean of its group, over its deviation (n-1) + 1e-6 where Scale is "group"
//
// and every token of the turn has the episode's advantage + Weight·a. An episode's reward is r of its last turn. A
// state is the last observation, whatever led there. A turn alone in its state has a = 0.
//
// verl-agent takes the mean and the deviation of whole episodes over their turns, so that an episode with many turns
// counts as often; here the estimator compares episodes, each once. It clusters similar texts too, if asked; here
// states are the same or not.
//
// Invariants (tests): in one state a's add up to 0; where no two turns share a state nothing changes; an episode with a
// missing reward changes no other; verl-agent's own functions give these numbers.
type Turns struct {
	Weight float64 `toml:"weight" range:"(0,inf)" doc:"of a turn's advantage beside the episode's"`
	Gamma  float64 `toml:"gamma" range:"[0,1]" doc:"how much a turn counts for the one before it"`
	Scale  string  `toml:"scale" enum:"none,group" doc:"whether the turns of a state are divided by their deviation"`
}

// Card describes the choice and names its source.
func (Turns) Card() string {
	return "Turns of a group's episodes that begin in the same state are compared with each other, beside whole episodes (GiGPO)."
}

// SetDefaults has the values of verl-agent's scripts.
func (t *Turns) SetDefaults() { *t = Turns{Weight: 1, Gamma: 0.95, Scale: "none"} }

// A Visit is a turn.
type Visit struct {
	Episode int    // whose; its visits stand in their order
	Prompt  int    // the episode's prompt
	State   string // that it begins in
	Reward  float64
}

// Of is Weight times the advantage of every visit; NaN where its episode has a missing reward.
func (t Turns) Of(visits []Visit) ([]float64, error) {
	type state struct {
		prompt int
		name   string
	}
	number, ids := map[state]int{}, make([]int, len(visits))
	for i, v := range visits {
		at := state{v.Prompt, v.State}
		if _, ok := number[at]; !ok {
			number[at] = len(number)
		}
		ids[i] = number[at]
	}
	o := Options{Over: "group", Baseline: "mean", Scale: t.Scale, DDOF: 1, Eps: 1e-6, EpsMode: "add", Singleton: "zero", Flat: "zero"}
	a, err := o.Of(ids, t.returns(visits))
	if err != nil {
		return nil, fmt.Errorf("comparing %d turns: %w", len(visits), err)
	}
	for i := range a {
		a[i] *= t.Weight
	}
	return a, nil
}

// returns are the rewards to come.
func (t Turns) returns(visits []Visit) []float64 {
	out := make([]float64, len(visits))
	for i := len(visits) - 1; i >= 0; i-- {
		out[i] = visits[i].Reward
		if i+1 < len(visits) && visits[i+1].Episode == visits[i].Episode {
			out[i] += float64(t.Gamma * out[i+1])
		}
	}
	return out
}
