package loss

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// An Objective is the loss of a policy's training. Its value is below its formula. Files, lists, pages, checks and
// plans read this value. Objectives lists all of them.
type Objective struct {
	Name    string
	Card    string   // a sentence: its description, and its source
	Paper   string   // whose it is
	Formula string   // the formula, in a line
	Cases   []string // recorded operations of published code that hold it

	Pictures *Form // its form for a sampler's pictures; nil: none
	Tokens   *Form // its form in an episode; nil: none
}

// A Form is an objective for one kind of samples.
type Form struct {
	Learns Source
	Needs  Needs

	Options any              // a struct of the option structs that it reads; nil: none of its own
	Set     func(o *Options) // the options that the name implies; nil: none
	Check   func(o Options, report func(key, problem, hint string))
	Words   func(o Options) string // the plan's sentence behind the name; nil: nothing
	Numbers []string               // its numbers, for monitors, beside those of all runs

	Steps    func(o Options) StepLoss                                  // of transitions
	Noised   func(o Options, group int) NoisedLoss                     // of noised samples
	Together func(o Options) bool                                      // whether Noised looks at all times of a sample at once; nil: it does not
	Token    func(o TokenLoss, x at, of answer, b wholeBatch) token    // of sampled tokens, one at a time
	Whole    func(o TokenLoss, t Tokens) TokenResult                   // an answer at a time
	As       func(o TokenLoss) TokenLoss                               // as another objective with these settings
	Choose   func(o TokenLoss, t Tokens) [][]float64                   // tokens that Token treats apart
	Refuse   func(o TokenLoss, report func(key, problem, hint string)) // limits of its tokens' options
}

// Source is the data of an objective.
type Source int

// The sources: of pictures first, then of episodes.
const (
	Nothing       Source = iota
	Transitions          // of a sampler's steps, which draw and have log-probabilities
	NoisedSamples        // finished samples, noised anew
	RewardSlope          // the reward's own gradient
	SampledTokens        // of conversations
	WrittenTokens        // of conversations in a file: nothing is rolled
	JudgedAnswers        // of such a file, each good or bad, or a better and a worse one
)

// Needs are an objective's requirements and properties.
type Needs uint32

// The needs.
const (
	Advantages          Needs = 1 << iota
	Ratio                     // of new and old probabilities
	BareRatio                 // the clip range is of the ratio itself, and rounding must not exceed it
	PlainAtOne                // it is the plain policy gradient where every ratio is 1
	SamplePairs               // a better and a worse sample of a prompt
	AnswerPairs               // a better and a worse answer of a row
	TokenDraws                // a random number for every token
	Flow                      // velocities of a flow
	OldWeights                // the network of the weights that rolled
	OldFollows                // these follow at the pace of optim.ema, and are the average
	ReferenceIfWeighted       // the reference, where loss.kl has a weight
	Reference                 // the reference, always
	AverageIfWeighted         // the moving average, where loss.kl.ema_weight is set
	Teacher                   // the reference is who is learned from: nothing is corrected for the sampler
	AnswerRatio               // a ratio that may be an answer's (sequence_ratio)
	OneNumber                 // it is one number an answer, without numbers of single tokens
	OpenRange                 // its clip range has no lower end, or is of logarithms
	RawChange                 // ppo_kl is of log-ratios that were not cut
	OwnCorrection             // weights of the rollout's correction are a part of its own
)

// StepLoss is the loss of a sampler's transitions.
type StepLoss = func(Terms) (Result, error)

// NoisedLoss is the loss of samples that were noised to this number of times. Samples of one group share a number. It
// may see any number of times at once, unless Together: row n·len(groups)+i is the n-th of sample i.
type NoisedLoss = func(times int, groups []int, advantages []float64) Walk

// Objectives are all objectives.
func Objectives() []Objective {
	return []Objective{
		ClipObjective,
		GuardObjective,
		DPPOObjective,
		NFTObjective,
		CRDObjective,
		AWMObjective,
		DPOObjective,
		KTOObjective,
		DistillObjective,
		RWRObjective,
		SFTObjective,
		DGPOObjective,
		RewardGradientObjective,
		GSPOObjective,
		GSPOMeanObjective,
		GMPOObjective,
		GPGObjective,
		CISPOObjective,
		LUSPOObjective,
		VESPOObjective,
		ClipCovObjective,
		KLCovObjective,
		GEPOObjective,
		SAPOObjective,
	}
}

// ObjectiveNamed is the objective of a name.
func ObjectiveNamed(name string) (Objective, bool) {
	all := Objectives()
	i := slices.IndexFunc(all, func(o Objective) bool { return o.Name == name })
	if i < 0 {
		return Objective{}, false
	}
	return all[i], true
}

// Form is the objective's form for tokens, or for pictures. Where the name means nothing there it is the other form,
// which a check refuses.
func (o Objective) Form(tokens bool) Form {
	first, second := o.Pictures, o.Tokens
	if tokens {
		first, second = second, first
	}
	switch {
	case first != nil:
		return *first
	case second != nil:
		return *second
	}
	return Form{}
}

// Has reports whether the form has all of some needs.
func (f Form) Has(n Needs) bool { return f.Needs&n == n }

// OfTokens reports whether the form is of episodes.
func (f Form) OfTokens() bool { return f.Learns >= SampledTokens }

// OfFinished reports whether the form looks at finished pictures alone, and at no step.
func (f Form) OfFinished() bool { return f.Learns == NoisedSamples || f.Learns == RewardSlope }

// Written reports whether the form learns from conversations of a file, and nothing is rolled.
func (f Form) Written() bool { return f.Learns == WrittenTokens || f.Learns == JudgedAnswers }

// rangeWords are how far ratios go.
func rangeWords(o Options) string {
	low, high := o.Bounds()
	return fmt.Sprintf(", ratios from 1 - %v to 1 + %v", low, high)
}

// TokenObjectives are the names of objectives of sampled tokens.
func TokenObjectives() (names []string) {
	for _, o := range Objectives() {
		if o.Tokens != nil && o.Tokens.Learns == SampledTokens {
			names = append(names, o.Name)
		}
	}
	return names
}

// Known says whether an objective of sampled tokens exists.
func (o TokenLoss) Known() error {
	_, err := o.form()
	return err
}

// form is the objective's, of sampled tokens.
func (o TokenLoss) form() (Form, error) {
	if k, ok := ObjectiveNamed(o.Objective); ok && k.Tokens != nil && k.Tokens.Learns == SampledTokens {
		return *k.Tokens, nil
	}
	return Form{}, fmt.Errorf("token objective %q is not known: write one of %v", o.Objective, TokenObjectives())
}

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
