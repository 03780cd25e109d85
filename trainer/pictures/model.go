package pictures

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/album"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Model is a model.Model: a policy, and a run's other methods.
type Model struct {
	*Policy
	opened pipeline.Options
	// adapters are of the networks that are trained; none where their own parameters are.
	adapters []*model.Adapter
	album    map[int]album.Page // of prompts whose pictures are learned from
	asked    model.Options      // the options of its run
	always   []pipeline.About   // texts that many pictures need
	sources  *sources           // the sources of prompts' pictures
	own      []extent           // that prompts name
	rewards  model.Rewards
	settings experiment.Settings // of the iteration under way
}

// Modality is how models that make pictures are opened, and Clips how those of clips are: a clip is a picture with
// frames.
func Modality() model.Modality { return modality("pictures") }
func Clips() model.Modality    { return modality("clips") }

func modality(of string) model.Modality {
	return model.Modality{
		Name:     of,
		Samples:  of,
		Sampled:  true,
		Inspect:  inspect,
		Networks: networks,
		Prompts:  readPrompts,
		Ready:    func(context.Context, *experiment.Experiment) (string, error) { return "", nil },
		Open: func(e *experiment.Experiment, o model.Options) (model.Model, error) {
			m, err := Open(e, o)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
		Possible: func(settings experiment.Settings) error {
			_, err := (&Model{}).Objective(settings, nil)
			return err
		},
		Memory: Memory,
	}
}

// precisions are by the words of [model].
var precisions = map[string]pipeline.Precision{"bf16": pipeline.BF16, "f32": pipeline.F32}

// Open opens the folder, and puts the adapter on.
func Open(e *experiment.Experiment, o model.Options) (*Model, error) {
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	precision := precisions[e.Model.Precision]
	patterns, _ := e.Model.Trained()
	m := &Model{opened: pipeline.Options{Pool: tensor.NewPool(o.Backend), Precision: precision, Train: patterns, Frozen: frozenOf(e.Model.Experts), TextLength: e.Model.TextLength, TextLayers: e.Model.TextLayers, SourceArea: e.Model.SourceArea, Base: e.Model.Base, Quantize: e.Model.Quantization(), Memory: pipeline.Memory{Lean: o.Lean, Aside: o.Aside, Home: o.Stock.Home(o.HomeOf(e)), Stock: o.Stock}}, rewards: o.Rewards, asked: o}
	m.opened.Pool.Limit, m.opened.Tokens = o.Held, o.Tokens
	if decoder, ok := precisions[e.Model.Decoder]; ok {
		m.opened.Decoder = &decoder
	}
	if err := m.openAlbums(e); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(e.Model.Path, assets.Prefix) { // an embedded model lies in another folder in every program, and is small
		m.opened.Cache = pipeline.Cache{Dir: o.Cache, Arithmetic: o.Arithmetic, Optional: true}
	}
	p, err := pipeline.Open(dir, m.opened)
	if err != nil {
		return nil, err
	}
	p.Memory.KeepEncoders, p.Memory.LendEncoders = p.EncoderBytes() <= keptEncoders || o.KeepEncoders, o.Checkpointing == autograd.AllBlocks
	m.always = []pipeline.About{}
	for _, text := range plain(e) {
		m.always = append(m.always, pipeline.About{Prompt: text})
	}
	m.Policy = &Policy{Pipeline: p, Micro: o.Micro, Checkpointing: o.Checkpointing, Context: o.Context, Progress: o.Progress, Logf: o.Logf}
	m.Policy.apart = model.Apart(e)
	m.sources = newSources(p, e, o)
	if err := m.prepare(e); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Model) prepare(e *experiment.Experiment) error {
	err := checkGuidance(e, m.Pipeline.Defaults())
	if err != nil {
		return err
	}
	m.own = ownExtents(m.asked.Len(), m.asked.Prompt)
	if err := m.tryTurns(e); err != nil {
		return err
	}
	if err := m.beginTexts(e); err != nil {
		return err
	}
	if err := m.adapt(e); err != nil {
		return err
	}
	if err := m.openTeacher(e); err != nil {
		return err
	}
	m.Draws = trainer.Draws{Root: rng.New(uint64(e.Run.Seed)), Shared: e.Rollout.SharedNoise}
	var on []*nn.Adapters
	for _, a := range m.adapters {
		on = append(on, a.On())
	}
	return m.learn(on, e.Optim, model.Needed(e), m.asked.Place)
}

// checkGuidance refuses a scale of guidance that is given to a network which reads none.
func checkGuidance(e *experiment.Experiment, d pipeline.Defaults) error {
	for _, at := range append([]*experiment.Experiment{e}, e.EachStage()...) {
		if s := at.Sampler; s.GuideBy == "embedded" && s.Guidance != 1 && !d.Embedded {
			return fmt.Errorf("sampler.guidance_kind = \"embedded\": the network in %s takes no scale of guidance, so %v would be ignored"+
				" (guidance_kind = \"cfg\" combines two outputs, for twice the passes; guidance = 1 is none)", e.Model.Path, s.Guidance)
		}
	}
	return nil
}

// led is how the reference follows prompts, where loss.kl says so.
func led(settings experiment.Settings) *pipeline.Guidance {
	s := settings.Sampler
	if s.Guidance = settings.Loss.KL.Guidance; s.Guidance == 0 {
		return nil
	}
	g := GuidanceOf(s)
	return &g
}

// GuidanceOf is how [sampler] follows prompts.
func GuidanceOf(s experiment.Sampler) pipeline.Guidance {
	if s.GuideBy == "embedded" {
		return pipeline.Guidance{Scale: 1, Embedded: s.Guidance, Second: s.Second}
	}
	return pipeline.Guidance{Scale: s.Guidance, Norm: s.GuideBy == "cfg-norm", Most: s.Most, Second: s.Second}
}

// Begin implements model.Model.
func (m *Model) Begin(settings experiment.Settings, root rng.Key, _ float64) (err error) {
	m.settings = settings
	m.Trained = settings.Trained
	m.Draws.Root, m.Draws.Shared = root, settings.Rollout.SharedNoise
	m.Policy.Passes, m.Policy.known = ledger.Passes{}, recalled{}
	if err := checkNetworks(m.Pipeline, settings); err != nil {
		return err
	}
	// Samples that are learned from again have the sizes that they were rolled in, whatever was gone back to since.
	return m.follow(m.Policy, settings, rng.New(uint64(settings.Run.Seed)), false)
}

// Fixed implements model.Model.
func (m *Model) Fixed(ctx context.Context, settings experiment.Settings, root rng.Key) trainer.Policy {
	p := *m.Policy
	p.unfit = m.follow(&p, settings, root, true)
	p.Trained = nil
	p.Draws, p.Context, p.Progress = trainer.Draws{Root: root, Fixed: true}, ctx, m.asked.Measuring
	return &p
}

// Portion implements model.Model.
func (m *Model) Portion() int { return m.perPass(&m.Form) }

// tryTurns makes sure that every stage's pictures, and held-out ones, have possible sizes.
func (m *Model) tryTurns(e *experiment.Experiment) error {
	for _, at := range e.EachStage() {
		for _, held := range []bool{false, true} {
			settings := experiment.Settings{Experiment: at, Evaluates: held}
			for _, own := range m.own {
				if err := checkOwnFrames(m.Pipeline, own.frames, settings.Frames()); err != nil {
					return err
				}
			}
			for _, one := range m.extents(settings) {
				if _, err := shape(m.Pipeline, one.Size, one.frames); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Passes implements model.Model.
func (m *Model) Passes() *ledger.Passes {
	p := m.Policy.Passes
	return &p
}

// Dir is the folder that was opened.
func (m *Model) Dir() string { return m.Pipeline.Dir() }

// Close gives everything back.
func (m *Model) Close() error {
	m.Free()
	if m.teacher != nil {
		return errors.Join(m.teacher.Close(), m.Pipeline.Close())
	}
	return m.Pipeline.Close()
}

// A checkpoint holds the policy's learner.

func (m *Model) Settle(o optim.Options, moves experiment.Moves) { m.learner.Settle(o, moves) }
func (m *Model) Tensors() ([]safetensors.Tensor, error)         { return m.learner.Tensors(""), nil }
func (m *Model) Load(f *safetensors.File) error                 { return m.learner.Load(f, "") }

// WriteAdapter implements model.Model.
func (m *Model) WriteAdapter(w trainer.Weights, dir string) error {
	return m.learner.With(w, func() (err error) {
		for _, a := range m.adapters {
			err = errors.Join(err, a.Write(dir))
		}
		return err
	})
}

func (m *Model) Bytes() int64                 { return m.learner.Bytes() }
func (m *Model) Keeps(w trainer.Weights) bool { return m.learner.Keeps(w) }
