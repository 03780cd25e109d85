package loss

import "fmt"

// Gradient is [loss.gradient]: how a reward's own gradient reaches the network (objective
// "reward-gradient"). Package trainer's rewardgradient.go has the formulas.
type Gradient struct {
	Through string   `toml:"through" enum:"direct,refl,draft" doc:"direct: a finished sample, noised, one step, and the noise taken off (SRPO's Direct-Align); refl: what one of the last steps predicts; draft: the last steps themselves"`
	Step    float64  `toml:"step" range:"(0,1)" of:"through=direct" doc:"of direct: how far in sigma the step goes"`
	Low     float64  `toml:"low" range:"[0,1)" of:"through=direct" doc:"of direct: the least sigma"`
	High    float64  `toml:"high" range:"(0,1)" of:"through=direct" doc:"of direct: the largest sigma"`
	Both    bool     `toml:"both" of:"through=direct" doc:"of direct: each sample also takes a step towards noise, where the reward's sign is turned (SRPO's inversion)"`
	Steps   int      `toml:"steps" range:"[1,1000]" of:"through=draft,refl" doc:"of draft: how many of the last steps; of refl: of how many one is drawn"`
	Margin  *float64 `toml:"margin" doc:"a reward above it is good enough, and has no gradient (ReFL's hinge); absent: none is"`
}

// DefaultGradient is SRPO's.
func DefaultGradient() Gradient {
	return Gradient{Through: "direct", Step: 0.1, Low: 0.3, High: 0.95, Both: true, Steps: 1}
}

// Words say which way the reward's gradient goes.
func (g Gradient) Words() string {
	s := map[string]string{
		"direct": fmt.Sprintf("through one step of %v between the sigmas %v and %v (Direct-Align)", g.Step, g.Low, g.High),
		"refl":   fmt.Sprintf("through the prediction of one of the last %d steps (ReFL)", g.Steps),
		"draft":  fmt.Sprintf("through the last %d steps (DRaFT)", g.Steps),
	}[g.Through]
	if g.Through == "direct" && g.Both {
		s += ", both ways"
	}
	if g.Margin != nil {
		s += fmt.Sprintf(", up to a reward of %v", *g.Margin)
	}
	return s
}

// GradientOptions are the options of the reward's own gradient alone.
type GradientOptions struct {
	Gradient Gradient `toml:"gradient"`
}

// RewardGradientObjective is SRPO, ReFL and DRaFT.
var RewardGradientObjective = Objective{
	Name: "reward-gradient", Card: "The reward's own gradient, through the picture and the network (SRPO's Direct-Align, ReFL, DRaFT); the reward must be differentiable.",
	Paper: "SRPO's Direct-Align, ReFL, DRaFT", Formula: "the gradient of the reward by the network, through what is decoded", Cases: []string{"align.direct", "loss.reward_hinge"},
	Pictures: &Form{
		Learns: RewardSlope,
		Options: struct {
			NoisedTimes
			GradientOptions
		}{},
		Words:   func(o Options) string { return ", " + o.Gradient.Words() },
		Numbers: []string{"developed_reward"},
	},
}
