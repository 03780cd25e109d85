package answers

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
)

var errNoWorth = errors.New("no environment said what the episode was worth")

// Environment adds up the rewards that the episode's environments return at its end. Where none said anything, the
// score is missing.
func Environment() rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (s rewards.Score, err error) {
		if item.Transcript == nil {
			return s, errNoReply
		}
		if len(item.Transcript.Worth) == 0 {
			return s, errNoWorth
		}
		for _, name := range slices.Sorted(maps.Keys(item.Transcript.Worth)) {
			s.Value += item.Transcript.Worth[name]
			s.Because(name, "%v", item.Transcript.Worth[name])
		}
		return s, nil
	})
}

// EnvironmentKind is reward environment.
var EnvironmentKind = rewards.Kind{
	Name:   "environment",
	Card:   "What the episode's environments say at its end ([[episode.tool]] state = true), added up.",
	Paper:  "an environment of your own",
	Judges: rewards.Replies,
	Open:   rewards.Plain(Environment()),
}
