package model

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Model is the model of a run: a policy with three sides. An iteration calls them in this order:
//
//	Begin, Objective                      the iteration's settings and its loss
//	Roll, Items, Shape                    samples, the items that rewards judge, and changed totals
//	Check                                 at the start of a stage, before anything is learned
//	Credit                                advantages
//	Eval and Params                       by the objective, for every update
//	Describe, Passes, Record              the run's records
//
// Its samples are functions of their keys and of the draws that Begin sets, so a checkpoint holds no more than
// Trainable's part. A model that changes one side embeds the others (trainer/ranks, trainer/fleet).
type Model interface {
	trainer.Policy
	Sampler
	Trainable
	Recorder

	// Dir is the folder that was opened.
	Dir() string
	Close() error
}

// A Sampler makes samples, beside trainer.Policy's Roll, and prepares them for rewards.
type Sampler interface {
	// Begin sets how an iteration samples. Everything that is drawn follows from root. Learning rates
	// that are the model's own are multiplied with scale.
	Begin(settings experiment.Settings, root rng.Key, scale float64) error
	// Fixed is the policy as it samples under other settings, with draws that are the same in every
	// iteration: for evaluations and pass rates.
	Fixed(ctx context.Context, settings experiment.Settings, root rng.Key) trainer.Policy
	// Portion is how many samples are computed beside each other: a roll of fewer takes longer for each.
	Portion() int
	// Items are the rewards' inputs for samples. Prompts are filled in by the caller.
	Items(samples []trainer.Sample) ([]rewards.Item, error)
	// Shape changes the totals that rewards gave to samples.
	Shape(samples []trainer.Sample, totals []float64)
}

// A Trainable learns from samples, and is saved.
type Trainable interface {
	// Objective is the iteration's loss; policy is the one that it evaluates.
	Objective(settings experiment.Settings, policy trainer.Policy) (trainer.Objective, error)
	// Check judges some decisions again, by the weights that just made them; nil: the objective
	// compares no probabilities.
	Check(o trainer.Objective, samples []trainer.Sample) (*ledger.Check, error)
	// Credit makes advantages of samples' totals by an estimator, and gives decisions their own where
	// they have some.
	Credit(samples []trainer.Sample, totals []float64, b advantage.Batch, by advantage.Estimator) ([]float64, error)
	// Settle begins a stage: optimisers have its options from now on, and move the parameters that it names.
	Settle(o optim.Options, moves experiment.Moves)
	// Moved are all parameters that an update moves.
	Moved() []*autograd.Param

	// Tensors are weights, optimisers and other sets of weights in fp32.
	Tensors() ([]safetensors.Tensor, error)
	// Load goes back to them.
	Load(f *safetensors.File) error
	// WriteAdapter writes a set of weights in a layout that other programs read; nothing where there is
	// no adapter.
	WriteAdapter(w trainer.Weights, dir string) error
	// Bytes are about the size of Tensors and the adapter on a disk.
	Bytes() int64
	// Keeps reports whether other weights have a copy of their own; Forget drops it.
	Keeps(w trainer.Weights) bool
	Forget(w trainer.Weights) error
}

// A Recorder writes about samples.
type Recorder interface {
	// Describe fills in this modality's numbers of samples in a ledger's line.
	Describe(line *ledger.Line, r *trainer.Report)
	// Passes are the iteration's runs of samples through the network; nil: they are not counted.
	Passes() *ledger.Passes
	// Files are the names of files with lines that Record appends to.
	Files() []string
	// Record writes samples for people, and returns the names of the files that show one, by sample.
	Record(to Outputs, line *ledger.Line, r *trainer.Report) (shown map[int]string, err error)
}

// A Streamer reports finished groups during a roll, so that rewards outside score them meanwhile, and nothing waits for
// the end of a portion.
type Streamer interface {
	// RollEach is Roll with a callback. each receives samples of whole groups, with the place of their first key, while
	// the model's device is free, and once more where other samples took their place.
	RollEach(w trainer.Weights, keys []trainer.Key, each func(first int, samples []trainer.Sample) error) ([]trainer.Sample, error)
}

// A Remote is a model that can load weights sent by another process (trainer/fleet). Its rollouts leave only its
// samples' numbers.
type Remote interface {
	// Values are a set of weights; Take makes such values the current ones.
	Values(w trainer.Weights) ([]safetensors.Tensor, error)
	Take(f *safetensors.File) error
	// Fits refuses samples of other sizes or steps, or with impossible numbers. The others can be learned from. Fits may
	// run beside the model's other work.
	Fits(r Rolled, samples []trainer.Sample) error
	// Most bounds the bytes of such samples on the wire.
	Most(r Rolled, keys []trainer.Key) int64
}

// A Recaller keeps the network's outputs at decisions since the current weights rolled them. Until these move, the
// network would answer with the same bits (trainer/fleet).
type Recaller interface {
	// Recall are the outputs at a sample's decisions; of a conversation, one list of all its tokens. nil: not known.
	Recall(s trainer.Sample) [][]float64
	// Means are those of decisions that follow from outputs, by sample; nil: they depend on more.
	Means(r Rolled, samples []trainer.Sample, outputs [][][]float64) ([][][]float64, error)
	// Remember takes outputs at decisions of samples that another process rolled by the current weights; nil: of none. Of
	// a model that answers by these, a forward pass with others calls differs, and goes on. Without samples, all that is
	// known is forgotten.
	Remember(samples []trainer.Sample, outputs [][][]float64, differs func(of trainer.Key))
}

// ErrOtherwise reports outputs that are not those of the roll.
var ErrOtherwise = errors.New("the network answers otherwise than it did when the sample was rolled, by the same weights: " +
	"this device computes a picture's bits by its batch, or computes wrongly\nhint: DARKROOM_CUDA=own computes without libraries")

// Rolled is how samples were rolled.
type Rolled struct {
	Settings experiment.Settings
	Root     rng.Key // that their draws follow from
	Fixed    bool    // by Model.Fixed
}

// An EpisodeCodec is a Remote that encodes and decodes conversations for transport.
type EpisodeCodec interface {
	Remote
	Encode(s trainer.Sample) (EncodedEpisode, error)
	// Decode gives samples their conversations. It refuses those that do not fit the prompts or the decisions.
	Decode(samples []trainer.Sample, said []EncodedEpisode) error
}

// An EncodedEpisode is a conversation for transport.
type EncodedEpisode struct {
	Text     json.RawMessage
	Pictures []*vision.Image // that cannot be made again by the receiver
}

// Outputs are Record's files.
type Outputs struct {
	Folder *folder.Folder
	Lines  map[string]*folder.Lines // those that Model.Files names
}

// A Modality is a kind of model: how one is opened, and facts before that.
type Modality struct {
	Name    string
	Samples string // the word for its samples
	Sampled bool   // whether 'darkroom sample' makes such samples
	Looks   bool   // whether it looks at pictures that prompts name
	// Inspect refuses contradictions between the model's folder and the experiment.
	Inspect func(f *Folder)
	// Prompts reads an experiment's training data.
	Prompts func(e *experiment.Experiment) ([]prompts.Prompt, error)
	// Ready tries the model's requirements on the machine, before anything is opened that takes long, and returns a
	// sentence for people; "": there is nothing to say.
	Ready func(ctx context.Context, e *experiment.Experiment) (news string, err error)
	// Networks opens the parameters of the networks that are trained, as a run opens them, and says how they are let go.
	Networks func(dir string, m experiment.Model, pool *tensor.Pool) ([]Network, func() error, error)
	// Open opens the model on one device.
	Open func(e *experiment.Experiment, o Options) (Model, error)
	// Possible reports settings that this version cannot train.
	Possible func(settings experiment.Settings) error
	// Memory predicts a run's memory, on an empty backend that counts, and its fit to a budget of bytes; 0: no
	// budget.
	Memory func(e *experiment.Experiment, dry Dry, budget int64) (*Memory, error)
}

// Options are a model's parameters from its run.
type Options struct {
	Backend kernels.Backend
	Train   []prompts.Prompt // keys name them by their place, those held out behind
	HeldOut []prompts.Prompt
	Rewards Rewards
	Fit
	// Stock holds frozen matrices for all devices of the run, where their home is the host's memory or the devices'.
	Stock *nn.Stock
	// Tokens is the model's share of the tokens of every pass; nil: it has all.
	Tokens *autograd.Tokens
	Place  // of the states of trained parameters
	// Cache is a folder for encoded prompts, which runs may share; "": it is kept in memory alone.
	Cache string
	// Arithmetic names that of the device: two devices of one compute the same bits, and share the content of Cache.
	Arithmetic string
	// Ahead are the numbers of prompts that this iteration and the next ones will probably ask for; nil: nobody knows.
	Ahead func() []int
	// Context stops rolls, and on a worker the opening; nil: nothing stops rolls.
	Context context.Context
	// Logf reports to people; nil: nobody reads.
	Logf func(format string, args ...any)
	// Progress is called with the progress of a roll, and Measuring with that of a Fixed policy's; nil: nobody asks.
	Progress, Measuring func(done, all int)
}

// Len is how many prompts there are.
func (o Options) Len() int { return len(o.Train) + len(o.HeldOut) }

// Prompt is the one of a key's number.
func (o Options) Prompt(n int) prompts.Prompt {
	if n < len(o.Train) {
		return o.Train[n]
	}
	return o.HeldOut[n-len(o.Train)]
}

// Rewards is a model's interface to the run's rewards.
type Rewards interface {
	// Totals are the totals of samples, as those of an iteration are made.
	Totals(samples []trainer.Sample) ([]float64, error)
	// Slopes are the trained rewards' sum over pictures, one a way, and its gradient at their numbers.
	Slopes(ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error)
}

// Network is the parameters of one; Number is 0, or 1 of a second that takes turns with the first.
type Network struct {
	*nn.Params
	Number int
}
