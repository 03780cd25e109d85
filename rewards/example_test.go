package rewards_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
)

// A reward is a function from an item to a score. One that fails is missing, and never 0.
func Example() {
	short := rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		if item.Prompt == "" {
			return rewards.Score{}, errors.New("there is no prompt")
		}
		return rewards.Score{Value: 1 / float64(len(item.Prompt))}, nil
	})
	results := rewards.Each(short, 2).Judge(context.Background(), []rewards.Item{{Prompt: "a cat"}, {}})
	fmt.Println(rewards.Values(results), results[1].Missing)
	// Output: [0.2 NaN] there is no prompt
}
