package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// checkWeights refuses weights of prompts that name no reward, or that nothing reads.
func (c *check) checkWeights() {
	for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
		for n, p := range c.Prompts[key] {
			if problem, hint := wrongWeights(c.Experiment, p.Weights); problem != "" {
				c.Refuse(key, fmt.Sprintf("prompt %d, %q: %s", n+1, p.Text, problem), hint)
				break
			}
		}
	}
}

// wrongWeights says what is wrong with a prompt's weights; "": nothing is.
func wrongWeights(e *experiment.Experiment, weights map[string]float64) (problem, hint string) {
	if len(weights) > 0 && e.Advantage.EachReward() {
		return "it has weights of its own, and advantages of each reward are added up", `advantage.combine = "rewards", or no weights in prompts`
	}
	var trained []string
	for _, r := range e.Rewards {
		if r.Train {
			trained = append(trained, r.Called())
		}
	}
	for _, label := range slices.Sorted(maps.Keys(weights)) {
		switch {
		case !slices.Contains(trained, label):
			return fmt.Sprintf("it weighs %q, and no reward that is trained on is called so", label), "there are " + strings.Join(trained, ", ")
		case weights[label] < 0 && !e.Combination().Adds():
			return fmt.Sprintf("the weight of %q is %v, and rewards that are combined by %q have none below 0", label, weights[label], e.Together.Combine), `rewards.combine = "sum" takes them off`
		}
	}
	if _, err := e.Combination().WeightsFor(weights); err != nil {
		return err.Error(), "advantage.shares = false"
	}
	return "", ""
}
