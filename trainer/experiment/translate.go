package experiment

import (
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What becomes of [[reward]], [advantage] and [loss]: options of packages rewards,
// advantage and loss. Nothing is decided here that the file does not say, but for
// what the comments name.

// Combination is how the trained rewards become one.
func (e *Experiment) Combination() rewards.Combination {
	c := rewards.Combination{By: e.Together.Combine, Disagreement: e.Together.Disagreement, Shares: e.Advantage.Shares, Partial: e.Advantage.Partial}
	for _, r := range e.Rewards {
		if r.Train {
			c.Parts = append(c.Parts, rewards.Part{Name: r.Called(), Weight: r.Weight, Scale: r.Scale, Gate: r.Gate})
		}
	}
	return c
}

// Combined is what of the trained rewards' scores is compared, and what it weighs: their
// sum, or each by itself where advantages are added up.
func (e *Experiment) Combined(scores [][]float64) (compared [][]float64, weights []float64, err error) {
	c := e.Combination()
	if e.Advantage.How == "rewards" {
		sum, err := c.Of(scores)
		return [][]float64{sum}, nil, err
	}
	if compared, err = c.Each(scores); err != nil {
		return nil, nil, err
	}
	weights, err = c.Weights()
	return compared, weights, err
}

// Estimator is the estimator of outcomes, for what the experiment makes.
func (e *Experiment) Estimator() advantage.Estimator {
	if e.Episode != nil {
		return e.Advantage.Rule()
	}
	return e.Advantage.OfPictures()
}

// Comparison is the rule of the estimator's name.
func (e *Experiment) Comparison() advantage.Rule { return e.Advantage.rule() }

// ComparesGroups reports whether a sample is compared with the mean of its group: pairs are compared with each other,
// the best of a group is learned from, weights compare nothing.
func (e *Experiment) ComparesGroups() bool {
	return e.Kind().Has(loss.Advantages) && e.Comparison().GroupMean
}

// Shaped is what an answer's reward becomes before it is compared.
func (e Episode) Shaped(reward float64, tokens int, truncated bool) float64 {
	if e.Truncated != nil {
		reward = advantage.StopProperly(reward, *e.Truncated, truncated)
	}
	if e.Overlong != nil {
		reward += e.Overlong.Penalty(tokens)
	}
	return reward
}
