package answers

import (
	"context"
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
)

// Card: the length of a reply as a reward, along half a cosine (Yeo et al. 2025, VLM-R1's
// cosine_reward): a right answer is worth Short, falling to Long at Limit tokens; a wrong one
// the other way round, so that it is not worth giving up early.
//
//	at(n) = short - (short - long)(1 - cos(πn/Limit))/2
//
// VLM-R1 takes every answer for right. Beyond Limit the cosine goes on, and a reply of twice the
// limit is worth as much as an empty one: Stop keeps it at the end.
// Invariants (tests): both ends; falling between them.
type CosineLength struct {
	Right []float64 `toml:"right" doc:"worth of a right answer: of the shortest reply, and of one of limit tokens"`
	Wrong []float64 `toml:"wrong" doc:"worth of a wrong answer, likewise"`
	Limit int       `toml:"limit" range:"[1,inf)" doc:"tokens at which the second number is reached"`
	Stop  bool      `toml:"stop" doc:"longer replies are worth as much as one of limit tokens; else the cosine goes on"`
}

// SetDefaults are VLM-R1's numbers.
func (c *CosineLength) SetDefaults() {
	*c = CosineLength{Right: []float64{1, 0.5}, Wrong: []float64{-0.5, 0}, Limit: 1024}
}

// Check reports worths that are not two numbers.
func (c CosineLength) Check(report func(key, problem, hint string)) {
	if len(c.Right) != 2 {
		report("right", "two numbers are wanted: for the shortest reply, and for one of limit tokens", "right = [1, 0.5]")
	}
	if len(c.Wrong) != 2 {
		report("wrong", "two numbers are wanted: for the shortest reply, and for one of limit tokens", "wrong = [-0.5, 0]")
	}
}

// At is the reward of a reply with this number of tokens.
func (c CosineLength) At(tokens int, right bool) float64 {
	ends := c.Wrong
	if right {
		ends = c.Right
	}
	if c.Stop {
		tokens = min(tokens, c.Limit)
	}
	return ends[0] - float64((ends[0]-ends[1])*(1-portable.Cos(float64(tokens)*math.Pi/float64(max(1, c.Limit))))/2)
}

var errTokens = errors.New("the reply's length is not known: its tokens were not recorded")

// Reward judges how long all turns are together, by whether the answer is right: above one half of a rule.
func (c CosineLength) Reward(right rewards.Reward) rewards.Reward {
	return rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
		s, err := right.Score(ctx, item)
		if err != nil {
			return s, err
		}
		n := len(item.Transcript.Tokens)
		if n == 0 {
			return rewards.Score{}, errTokens
		}
		s.Parts = map[string]float64{"right": s.Value, "tokens": float64(n)}
		s.Value = c.At(n, s.Value > 0.5)
		s.Because("length", "%d tokens of %d", n, c.Limit)
		return s, nil
	})
}

// LengthKey is the table of CosineLength.
type LengthKey struct {
	Length *CosineLength `toml:"length" doc:"of reward length: what long and short replies are worth"`
}

type lengthKeys struct {
	RuleKey
	RulesKey
	LengthKey
}

func (k lengthKeys) rules() ruleKeys { return ruleKeys{k.RuleKey, k.RulesKey} }

// LengthKind is reward length.
var LengthKind = rewards.Kind{
	Name:    "length",
	Card:    "A reply's length along half a cosine: short right answers are worth more, and long wrong ones (VLM-R1).",
	Paper:   "Demystifying Long CoT (Yeo et al., 2025)",
	Cases:   []string{"vlm.reward_cosine_length"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: lengthKeys{},
	Check: rewards.Checks(func(k lengthKeys, report rewards.Report) {
		k.rules().check("length", report)
		if k.Length != nil {
			k.Length.Check(func(key, problem, hint string) { report("length."+key, problem, hint) })
		}
	}),
	Open: rewards.Opens(func(k lengthKeys, _ rewards.Bench) (rewards.Opened, error) {
		right, err := k.rules().reward()
		if err != nil {
			return rewards.Opened{}, err
		}
		return rewards.One(config.Filled(k.Length).Reward(right)), nil
	}),
}
