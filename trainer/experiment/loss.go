package experiment

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Loss is [loss]: the words of a file for the options of package loss. An objective's
// name sets keys of this table, which may be set otherwise.
type Loss struct {
	Preset    string  `toml:"preset" doc:"settings of a published system, for this table"`
	Objective string  `toml:"objective" doc:"see darkroom list objectives"`
	ClipRange float64 `toml:"clip_range" range:"[0,1]" doc:"how far the ratio may fall below 1, and rise above it"`
	ClipHigh  float64 `toml:"clip_high" range:"[0,1e3]" doc:"how far it may rise above 1, if not as far; 0: as far"`
	DualClip  float64 `toml:"dual_clip" range:"[0,inf)" doc:"bound of the loss where the advantage is negative; 0: none"`
	Ratio     string  `toml:"ratio" enum:"plain,guard,guard_batch,guard_plain" doc:"of clip: without its drift (verl-omni's form, flow_grpo's, Flow-Factory's)"`
	loss.DPPO
	Beta        float64 `toml:"beta" range:"(0,inf)" doc:"of nft, dpo and dgpo: how far the implicit policies lie apart"`
	NoiseWeight float64 `toml:"noise_weight" range:"[0,inf)" doc:"advantages times this times the step's deviation; 0: as they are"`
	Weighting   string  `toml:"weighting" enum:"Uniform,t,t**2,huber,ghuber" doc:"of awm: weight of a time"`
	Times       int     `toml:"times" range:"[1,1000]" doc:"times that a final sample is noised to"`
	TauPositive float64 `toml:"tau_pos" range:"(0,inf)" doc:"of sapo: temperature where the advantage is positive"`
	TauNegative float64 `toml:"tau_neg" range:"(0,inf)" doc:"and where it is negative"`
	loss.Aggregate
	KL         KL         `toml:"kl"`
	Correction Correction `toml:"correction"`
}

// KL is the penalty for leaving a reference.
type KL struct {
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"0: not computed"`
	Estimator string  `toml:"estimator" doc:"see darkroom list kls"`
	Over      string  `toml:"over" enum:"published,deviation,one" doc:"of mean: the distance is divided by twice the square of what the solver's published code has, of the step's deviation, or of 1"`
	Reference string  `toml:"reference" enum:"base,ema,old" doc:"who is left"`
	Reset     int     `toml:"reset" range:"[0,inf)" doc:"iterations after which the reference is made the current weights; 0: never"`
}

// Correction weighs samples by how far rollout and trainer differ, and leaves some out.
type Correction struct {
	Weights   string  `toml:"weights" enum:"none,token,sequence" doc:"what has a weight: the ratio of the trainer's probability to the sampler's"`
	Threshold float64 `toml:"threshold" range:"(0,inf)" doc:"largest weight"`
	Normalise bool    `toml:"normalise" doc:"make the weights' mean 1"`
	Reject    string  `toml:"reject" doc:"what is left out, such as token_k1,seq_mean_k3; empty: nothing"`
	Bounds    string  `toml:"bounds" doc:"of each rule, such as 0.5_2.0,0.05"`
}

func defaultLoss() Loss {
	return Loss{
		Objective: "clip", ClipRange: 1e-4, Ratio: "plain", DPPO: loss.DPPO{Threshold: 1e-5}, Beta: 1, Weighting: "Uniform", Times: 1,
		TauPositive: 1, TauNegative: 1.05, Aggregate: loss.Aggregate{Mode: "token-mean"},
		KL: KL{Estimator: "mean", Over: "published", Reference: "base"}, Correction: Correction{Weights: "none", Threshold: 2},
	}
}

// bounds is how far a ratio may go.
func (l Loss) bounds() (low, high float64) {
	if l.ClipHigh == 0 {
		return l.ClipRange, l.ClipRange
	}
	return l.ClipRange, l.ClipHigh
}

// Clip is the clipped objective of a sampler's steps. Advantages were cut by
// [advantage]: here they are cut to what cannot be exceeded.
func (l Loss) Clip() loss.Clip {
	low, high := l.bounds()
	return loss.Clip{Low: low, High: high, Dual: l.DualClip, AdvLow: math.MaxFloat64, AdvHigh: math.MaxFloat64, Ratio: l.Ratio, NoiseWeight: l.NoiseWeight, KLWeight: l.KL.Weight}
}

// Tokens is the objective of a language model's tokens.
func (l Loss) Tokens() loss.TokenLoss {
	low, high := l.bounds()
	objective := l.Objective
	if objective == "clip" {
		objective = "ppo"
	}
	o := loss.DefaultTokens()
	o.Objective, o.Low, o.High, o.Dual, o.TauPos, o.TauNeg, o.Aggregate = objective, low, high, l.DualClip, l.TauPositive, l.TauNegative, l.Aggregate
	o.KL.Weight, o.KL.Estimator = l.KL.Weight, l.KL.Estimator
	return o
}
