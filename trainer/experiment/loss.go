package experiment

import "github.com/darkroom-rl/darkroom/trainer/loss"

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
	Beta        float64    `toml:"beta" range:"(0,inf)" doc:"of nft, dpo and dgpo: how far the implicit policies lie apart"`
	NoiseWeight float64    `toml:"noise_weight" range:"[0,inf)" doc:"advantages times this times the step's deviation; 0: as they are"`
	Weighting   string     `toml:"weighting" enum:"Uniform,t,t**2,huber,ghuber" doc:"of awm: weight of a time"`
	Times       int        `toml:"times" range:"[1,1000]" doc:"times that a final sample is noised to"`
	Aggregation string     `toml:"aggregation" enum:"token-mean,seq-mean-token-mean,seq-mean-token-sum,seq-mean-token-sum-norm" doc:"how decisions are averaged"`
	KL          KL         `toml:"kl"`
	Correction  Correction `toml:"correction"`
}

// KL is the penalty for leaving a reference.
type KL struct {
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"0: not computed"`
	Estimator string  `toml:"estimator" doc:"see darkroom list kls"`
	Reference string  `toml:"reference" enum:"base,ema,old" doc:"who is left"`
	Reset     int     `toml:"reset" range:"[0,inf)" doc:"iterations after which the reference is made the current weights; 0: never"`
}

// Correction weighs samples by how far rollout and trainer differ.
type Correction struct {
	Kind  string  `toml:"kind" enum:"none,truncate,mask" doc:"what is done with a weight above the limit"`
	Level string  `toml:"level" enum:"token,sequence" doc:"what has a weight"`
	Limit float64 `toml:"limit" range:"(0,inf)" doc:"of the weight"`
}

func defaultLoss() Loss {
	return Loss{
		Objective: "clip", ClipRange: 1e-4, Ratio: "plain", DPPO: loss.DPPO{Threshold: 1e-5}, Beta: 1, Weighting: "Uniform", Times: 1, Aggregation: "token-mean",
		KL: KL{Estimator: "mean", Reference: "base"}, Correction: Correction{Kind: "none", Level: "token", Limit: 2},
	}
}

// Clip is the clipped objective that the table asks for; advantages are cut by
// [advantage].
func (l Loss) Clip(advantages float64) loss.Clip {
	high := l.ClipHigh
	if high == 0 {
		high = l.ClipRange
	}
	return loss.Clip{Low: l.ClipRange, High: high, AdvLow: advantages, AdvHigh: advantages, Ratio: l.Ratio, KLWeight: l.KL.Weight}
}
