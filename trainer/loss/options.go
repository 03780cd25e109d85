package loss

import "github.com/darkroom-rl/darkroom/trainer/advantage"

// Options are the options of all objectives, as one table of a file has them. Each is declared beside the formula that
// reads it.
type Options struct {
	Clipping
	Rectification
	NoiseFloor string `toml:"noise_floor" enum:"warn,stop,off" doc:"what a clip range below the noise of log-probabilities does; it is measured as every stage begins: of pictures, where a ratio can differ from 1 (updates above 1, run.lag or rollout.buffer), by a second copy of the network in fp32 for that moment, of episodes by what their sampler says of its tokens and what the trainer says (0 but for an engine)"`
	RatioForm
	DPPO
	StepWeights
	Forward
	ImplicitOptions
	AdvantageCut
	NFTOptions
	AWMOptions
	DGPOOptions
	CRDOptions
	TokenOptions
	KL KLOptions `toml:"kl"`
	GradientOptions
	Correction Correction `toml:"correction"`
	advantage.ValueOptions
	Preference Preference `toml:"preference" of:"tokens"`
	Imitate    Imitation  `toml:"imitate" of:"tokens" doc:"updates of rollouts learn from written answers, too (CHORD), and from these alone where no sample of an iteration teaches anything; warmup and decay count iterations of the stage"`
}

// DefaultOptions are those of pictures.
func DefaultOptions() Options {
	return Options{
		Clipping: DefaultClipping(), NoiseFloor: "warn", RatioForm: DefaultRatioForm(), DPPO: DefaultDPPO(), Forward: DefaultForward(),
		ImplicitOptions: ImplicitOptions{Beta: 1}, AdvantageCut: AdvantageCut{AdvClip: 5}, NFTOptions: NFTOptions{AdvMode: "all"},
		AWMOptions: DefaultAWMOptions(), CRDOptions: DefaultCRDOptions(), TokenOptions: DefaultTokenOptions(), KL: KLOptions{Penalty: DefaultPenalty()},
		GradientOptions: GradientOptions{DefaultGradient()}, Correction: DefaultCorrection(), ValueOptions: advantage.DefaultValueOptions(),
		Preference: DefaultPreference(), Imitate: DefaultImitation(),
	}
}

// OfTokens sets the defaults of an episode: PPO's clip range, and GRPO's distance, since tokens have no means.
func (o *Options) OfTokens() {
	o.Clipping = DefaultTokenClipping()
	o.KL.Estimator = "k3"
}
