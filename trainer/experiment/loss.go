package experiment

import (
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Loss is [loss]: the words of a file for the options of package loss. An objective's
// name sets keys of this table, which may be set otherwise. translate.go has what
// becomes of it, and idle.go which objective reads which key.
type Loss struct {
	Preset    string  `toml:"preset" doc:"settings of a published system, for this table"`
	Objective string  `toml:"objective" doc:"see darkroom list objectives"`
	ClipRange float64 `toml:"clip_range" range:"[0,1]" doc:"how far the ratio may fall below 1, and rise above it"`
	ClipHigh  float64 `toml:"clip_high" range:"[0,1e3]" doc:"how far it may rise above 1, if not as far; 0: as far"`
	DualClip  float64 `toml:"dual_clip" range:"[0,inf)" doc:"bound of the loss where the advantage is negative; 0: none"`

	NoiseFloor string `toml:"noise_floor" enum:"warn,stop,off" doc:"what a clip range below the noise of log-probabilities does; it is measured as every stage begins, with a second copy of the network in fp32 for that moment"`

	// Of a sampler's steps.
	Ratio string `toml:"ratio" enum:"plain,guard,guard_batch,guard_plain" doc:"of clip: without its drift (verl-omni's form, flow_grpo's, Flow-Factory's)"`
	loss.DPPO
	NoiseWeight  float64 `toml:"noise_weight" range:"[0,inf)" doc:"advantages times this times the step's deviation (TempFlow: 2.25); 0: as they are"`
	NoiseScale   bool    `toml:"noise_scale" doc:"of flow-sde: losses weigh by the step's noise (LongCat)"`
	ChangeWeight float64 `toml:"change_weight" range:"[0,inf)" doc:"of half the mean squared change of log-probabilities (MixGRPO's KL)"`

	// Of final samples, noised anew.
	Times     int     `toml:"times" range:"[1,1000]" doc:"times that a final sample is noised to"`
	Beta      float64 `toml:"beta" range:"(0,inf)" doc:"of nft, dpo and dgpo: how far the implicit policies lie apart"`
	AdvClip   float64 `toml:"adv_clip" range:"(0,inf)" doc:"of nft and awm: what advantages are cut to"`
	AdvMode   string  `toml:"adv_mode" enum:"all,positive_only,negative_only,one_only,binary" doc:"of nft: which advantages count"`
	AdvMax    float64 `toml:"adv_max" range:"[0,inf)" doc:"of awm: what adv_clip is scaled to; 0: not scaled"`
	Weighting string  `toml:"weighting" enum:"Uniform,t,t**2,huber,ghuber" doc:"of awm: weight of a time"`
	Power     float64 `toml:"power" range:"(0,inf)" doc:"of awm's ghuber: the power of the error"`
	Ratios    string  `toml:"ratios" enum:"sum_first,exp_first" doc:"of awm: one ratio a sample, or one a time"`
	ELBO      bool    `toml:"elbo" doc:"of awm: distances of velocities are over twice the squared deviation of their time"`
	ClipFar   bool    `toml:"clip_far" doc:"of dgpo: samples that left the clip range get no gradient"`

	// Of tokens.
	RatioCap      float64 `toml:"ratio_cap" range:"[0,inf)" doc:"largest ratio where the clip lets it pass (TRL's delta); 0: none"`
	SequenceRatio bool    `toml:"sequence_ratio" doc:"one ratio an answer, with the gradient of the mean"`
	TauPositive   float64 `toml:"tau_pos" range:"(0,inf)" doc:"of sapo: temperature where the advantage is positive"`
	TauNegative   float64 `toml:"tau_neg" range:"(0,inf)" doc:"and where it is negative"`
	EntropyWeight float64 `toml:"entropy_weight" range:"[0,inf)" doc:"of the bonus for the tokens' mean entropy"`
	loss.Keep
	loss.Aggregate
	Vespo      loss.Vespo      `toml:"vespo"`
	Covariance loss.Covariance `toml:"covariance"`
	KL         KL              `toml:"kl"`
	Gradient   Gradient        `toml:"gradient"`
	Correction loss.Correction `toml:"correction"`
	Value      Value           `toml:"value"`
}

// Value is the head of values that the estimator gae learns with.
type Value struct {
	LR        float64 `toml:"lr" range:"(0,inf)" doc:"of gae's head of values, which has an optimiser of its own"`
	ClipRange float64 `toml:"clip_range" range:"(0,inf)" doc:"how far a value may move from where it stood at the roll, as its loss sees it (verl: 0.5)"`
	GradClip  float64 `toml:"grad_clip" range:"[0,inf)" doc:"largest norm of its gradient; 0 does not clip"`
	Warmup    int     `toml:"warmup" range:"[0,1e9]" doc:"iterations in which it learns alone (verl's critic_warmup)"`
}

// KL is the penalty for leaving a reference.
type KL struct {
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"0: not computed"`
	Estimator string  `toml:"estimator" doc:"see darkroom list kls"`
	Over      string  `toml:"over" enum:"published,deviation,one" doc:"of mean: the distance is divided by twice the square of what the solver's published code has, or of the step's deviation, or by 1"`
	Corrected bool    `toml:"corrected" doc:"of tokens: times the ratio, so that its mean is over the current policy (TRL)"`
	Reference string  `toml:"reference" enum:"base,ema,old" doc:"who is left"`
	EMAWeight float64 `toml:"ema_weight" range:"[0,inf)" doc:"of awm: weight of the same distance to the moving average"`
	Reset     int     `toml:"reset" range:"[0,inf)" doc:"iterations after which the reference is made the current weights; 0: never"`
}

func defaultLoss() Loss {
	awm, tokens := loss.DefaultAWM(), loss.DefaultTokens()
	return Loss{
		Objective: "clip", ClipRange: 1e-4, NoiseFloor: "warn", Ratio: "plain", DPPO: loss.DPPO{Threshold: 1e-5},
		Times: 1, Beta: 1, AdvClip: 5, AdvMode: "all", Weighting: "Uniform", Power: 0.25, Ratios: awm.Ratios,
		TauPositive: tokens.TauPos, TauNegative: tokens.TauNeg, Keep: tokens.Keep, Aggregate: tokens.Aggregate,
		Vespo: tokens.Vespo, Covariance: tokens.Cov,
		KL: KL{Estimator: "mean", Over: "published", Reference: "base"}, Gradient: defaultGradient(), Correction: tokens.Correction,
		Value: Value{LR: 1e-5, ClipRange: 0.5, GradClip: 1},
	}
}
