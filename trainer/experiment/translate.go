package experiment

import (
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
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

// Kind is the row of the objective's name.
func (e *Experiment) Kind() ObjectiveKind { return e.objective() }

// Comparison is the rule of the estimator's name.
func (e *Experiment) Comparison() advantage.Rule { return e.Advantage.rule() }

// ComparesGroups reports whether a sample is compared with the mean of its group: pairs are compared with each other,
// the best of a group is learned from, weights compare nothing.
func (e *Experiment) ComparesGroups() bool {
	return !e.objective().Free && e.Comparison().GroupMean
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

// ofSteps is the estimator of a KL over transitions. The distance of velocities is that
// of means, with another denominator.
func (k KL) ofSteps() string {
	if k.Estimator == "velocity" {
		return "mean"
	}
	return k.Estimator
}

// Denominator is what the squared distance of two means of a step is divided by. The
// distance of velocities is that of means over the square of how the step weighs its
// output.
func (k KL) Denominator(row sde.Row) float64 {
	switch {
	case k.Estimator == "velocity":
		out := 0.0
		if len(row.Next.Out) > 0 {
			out = row.Next.Out[0]
		}
		return out * out
	case k.Over == "one":
		return 1
	case k.Over == "deviation":
		return 2 * row.Noise * row.Noise
	}
	return 2 * row.KLDeviation * row.KLDeviation
}

// Clip is the clipped objective of a sampler's steps. Advantages were cut by
// [advantage], and are not cut again.
func (l Loss) Clip() loss.Clip {
	return loss.Clip{Clipping: l.Clipping, RatioForm: l.RatioForm, StepWeights: l.StepWeights, KLWeight: l.KL.Weight, KLEstimator: l.KL.ofSteps()}
}

// Masked is the objective that leaves samples out in place of clipping.
func (l Loss) Masked() loss.DPPO {
	o := l.DPPO
	o.KLWeight, o.KLEstimator = l.KL.Weight, l.KL.ofSteps()
	return o
}

// Tokens is the objective of a language model's tokens.
func (l Loss) Tokens() loss.TokenLoss {
	objective := l.Objective
	if objective == "clip" {
		objective = "ppo"
	}
	return loss.TokenLoss{Objective: objective, Clipping: l.Clipping, TokenOptions: l.TokenOptions, KL: l.KL.Penalty, Correction: l.Correction}
}

// NFT is the objective of implicit policies, and the probabilities that it is told.
func (l Loss) NFT() (loss.NFT, func(advantages []float64) []float64) {
	return loss.NFT{Forward: l.Forward, KLWeight: l.KL.Weight},
		func(advantages []float64) []float64 { return advantage.Probability(advantages, l.AdvClip, l.AdvMode) }
}

// AWM is the objective of matching errors.
func (l Loss) AWM() loss.AWM {
	return loss.AWM{Clipping: l.Clipping, AWMOptions: l.AWMOptions, AdvClip: l.AdvClip, KLWeight: l.KL.Weight, EMAWeight: l.KL.EMAWeight}
}

// DGPO is the preference of groups.
func (l Loss) DGPO(group int) loss.DGPO {
	return loss.DGPO{Clipping: l.Clipping, DGPOOptions: l.DGPOOptions, Beta: l.Beta, GroupSize: group}
}

// CRD is the distillation of centred rewards.
func (l Loss) CRD() loss.CRD {
	return loss.CRD{CRDOptions: l.CRDOptions, Low: l.AdvClip, High: l.AdvClip, Beta: l.Beta, KLWeight: l.KL.Weight}
}
