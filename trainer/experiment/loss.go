package experiment

import (
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Loss is [loss]: the options of package loss, each declared there beside the formula that reads it.
// The objective's name sets keys of this table, and the file may set them otherwise. translate.go makes
// an objective of it.
type Loss struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Objective string `toml:"objective" doc:"see darkroom list objectives"`
	loss.Clipping

	Rectify    bool   `toml:"rectify" of:"clip,guard" doc:"of flow-sde and flow-wan: decisions weigh by how little of the gradient their step keeps, 1 on average (Flash-GRPO)"`
	NoiseFloor string `toml:"noise_floor" enum:"warn,stop,off" doc:"what a clip range below the noise of log-probabilities does; it is measured as every stage begins: of pictures, where a ratio can differ from 1 (updates above 1, run.lag or rollout.buffer), by a second copy of the network in fp32 for that moment, of episodes by what their sampler says of its tokens and what the trainer says (0 but for an engine)"`

	loss.RatioForm
	loss.DPPO
	loss.StepWeights
	loss.Forward
	loss.AWMOptions
	loss.DGPOOptions
	loss.CRDOptions
	loss.TokenOptions
	KL         KL              `toml:"kl"`
	Gradient   Gradient        `toml:"gradient" of:"reward-gradient"`
	Correction loss.Correction `toml:"correction"`
	Value      Value           `toml:"value" of:"estimator=gae"`
	Preference Preference      `toml:"preference" of:"tokens"`
	Imitate    Imitation       `toml:"imitate" of:"tokens" doc:"updates of rollouts learn from written answers, too (CHORD), and from these alone where no sample of an iteration teaches anything; warmup and decay count iterations of the stage"`
}

// KL is [loss.kl].
type KL struct {
	loss.Penalty
	Guidance float64 `toml:"guidance" range:"[0,100]" of:"steps,nft,crd,awm" doc:"guidance of the reference (base, stage or teacher): a policy sampled without guidance learns what guidance does; 0: that of the sampler"`
}

// Preference is [loss.preference], of objectives that learn from answers which somebody judged.
type Preference struct{ loss.Preference }

// Imitation is [loss.imitate]: answers that somebody wrote, in the updates of rollouts.
type Imitation struct{ loss.Imitation }

// Value is the head of values that the estimator gae learns with.
type Value struct {
	LR        float64 `toml:"lr" range:"(0,inf)" doc:"of gae's head of values, which has an optimiser of its own"`
	ClipRange float64 `toml:"clip_range" range:"(0,inf)" doc:"how far a value may move from where it stood at the roll, as its loss sees it (verl: 0.5)"`
	GradClip  float64 `toml:"grad_clip" range:"[0,inf)" doc:"largest norm of its gradient; 0 does not clip"`
	Warmup    int     `toml:"warmup" range:"[0,1e9]" doc:"iterations in which it learns alone (verl's critic_warmup)"`
}

func defaultLoss() Loss {
	return Loss{
		Objective: "clip", Clipping: loss.DefaultClipping(), NoiseFloor: "warn", RatioForm: loss.DefaultRatioForm(), DPPO: loss.DefaultDPPO(),
		Forward: loss.DefaultForward(), AWMOptions: loss.DefaultAWMOptions(), CRDOptions: loss.DefaultCRDOptions(),
		TokenOptions: loss.DefaultTokenOptions(),
		KL:           KL{Penalty: loss.DefaultPenalty()}, Gradient: defaultGradient(), Correction: loss.DefaultCorrection(), Value: Value{LR: 1e-5, ClipRange: 0.5, GradClip: 1},
		Preference: Preference{loss.DefaultPreference()}, Imitate: Imitation{loss.DefaultImitation()},
	}
}
