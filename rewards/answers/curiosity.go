package answers

import (
	"context"
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Card: Pixel-Reasoner (experience_maker.py) keeps a group curious about its tools. With ρ the
// share of the group's samples that call one, a sample with n > 0 calls gets on top
//
//	0.25 max(0.3 - ρ, 0)/(c ρ) - 0.05 (n - 1)      c is 2 for pictures, 1.5 for clips
//
// whether it is right or wrong. A right answer whose last call failed counts as wrong first.
// Upstream looks failures up by the number within the group in the whole batch's list, so that
// every group is judged by the first one's: here a group is judged by its own.
// Invariants (tests): nobody calls: nothing changes; from ρ = 0.3 on there is no bonus.
type Curiosity struct {
	Target  float64 `toml:"target" range:"[0,1]" doc:"share of samples that should call a tool"`
	Bonus   float64 `toml:"bonus" doc:"its scale"`
	Penalty float64 `toml:"penalty" doc:"of every call after the first"`
}

// DefaultCuriosity are the published numbers.
func DefaultCuriosity() Curiosity { return Curiosity{Target: 0.3, Bonus: 0.25, Penalty: 0.05} }

// An Attempt is one sample of a group.
type Attempt struct {
	Right  float64 // 1 is right, above 0.5 counts as right
	Calls  int
	Clip   bool
	Failed bool // the last call
}

// A Shaped group has its rewards and their parts.
type Shaped struct {
	Rewards, Curiosity, Penalty []float64

	Uniform          bool // all rewards are within 0.01 of each other, on average
	Difficulty       int  // by the share of right ones: 0 below 1/8, 1 below 3/8, 2 below 6/8, 3 below all, 4
	RightWithoutTool bool
}

// Of shapes a group's rewards.
func (c Curiosity) Of(group []Attempt) Shaped {
	var s Shaped
	calling, right := 0.0, 0.0
	for _, a := range group {
		calling += one(a.Calls > 0)
		right += a.Right
		s.RightWithoutTool = s.RightWithoutTool || a.Right > 0.5 && a.Calls == 0
	}
	n := float64(max(1, len(group)))
	share := calling / n
	sum := 0.0
	for _, a := range group {
		r, curious, penalty := a.Right, 0.0, 0.0
		if r > 0.5 && a.Failed {
			r = 0
		}
		if a.Calls > 0 {
			worth := 2.0
			if a.Clip {
				worth = 1.5
			}
			curious = float64(max(c.Target-share, 0) / worth / share * c.Bonus)
			penalty = float64(-c.Penalty * float64(a.Calls-1))
			r += curious + penalty
		}
		s.Rewards, s.Curiosity, s.Penalty = append(s.Rewards, r), append(s.Curiosity, curious), append(s.Penalty, penalty)
		sum += r
	}
	spread := 0.0
	for _, r := range s.Rewards {
		spread += math.Abs(r - sum/n)
	}
	s.Uniform = spread/n < 0.01
	for _, least := range []float64{1. / 8, 3. / 8, 6. / 8, 1} {
		s.Difficulty += int(one(right/n >= least))
	}
	return s
}

// Judge adds curiosity to a reward that marks right answers. One that is missing makes all missing: the share of
// callers would be a guess.
func (c Curiosity) Judge(right rewards.Reward, atOnce int) rewards.Judge {
	return curious{c, rewards.Each(right, atOnce)}
}

type curious struct {
	Curiosity
	right rewards.Judge
}

var errGroup = errors.New("another sample of the group has no score, and curiosity compares them")

// Judge shapes the scores of a group.
func (c curious) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	out := c.right.Judge(ctx, items)
	whole := true
	group := make([]Attempt, len(items))
	for i, r := range out {
		whole = whole && r.Missing == nil
		group[i] = Attempt{Right: r.Value, Clip: items[i].Clip != nil}
		if t := items[i].Transcript; t != nil {
			for _, turn := range t.Turns {
				group[i].Calls += int(one(turn.Tool != ""))
			}
			group[i].Failed = t.Failed
		}
	}
	if !whole {
		for i := range out {
			if out[i].Missing == nil {
				out[i].Missing = errGroup
			}
		}
		return out
	}
	s := c.Of(group)
	for i := range out {
		out[i].Parts = map[string]float64{"right": group[i].Right, "curiosity": s.Curiosity[i], "penalty": s.Penalty[i]}
		out[i].Value = s.Rewards[i]
	}
	return out
}

// ToolsKind is reward tools.
var ToolsKind = rewards.Kind{
	Name:    "tools",
	Card:    "Right answers, with a bonus for groups that seldom call a tool, and a price for every further call (Pixel-Reasoner).",
	Paper:   "Pixel-Reasoner (Su et al., 2025)",
	Cases:   []string{"vlm.reward_curiosity", "vlm.reward_curiosity_upstream_defect"},
	Parts:   []string{"right", "curiosity", "penalty"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: ruleKeys{},
	Check:   rewards.Checks(func(k ruleKeys, report rewards.Report) { k.check("tools", report) }),
	Open: rewards.Opens(func(k ruleKeys, _ rewards.Bench) (rewards.Opened, error) {
		right, err := k.reward()
		if err != nil {
			return rewards.Opened{}, err
		}
		return rewards.Opened{Judge: DefaultCuriosity().Judge(right, 4)}, nil
	}),
}
