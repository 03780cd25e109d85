package training

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/ranks"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
	"github.com/darkroom-rl/darkroom/trainer/rollout/episodes"
	"github.com/darkroom-rl/darkroom/vision"
)

// model is what is trained, and the texts that it is asked for.
type model struct {
	pipeline *pipeline.Pipeline
	opened   pipeline.Options
	adapters *nn.Adapters
	lora     nn.LoRA
	policy   *rollout.Pictures
	speaker  *episodes.Speaker // of a model that speaks, which has no pipeline
	talk     *episodes.Policy
	at       pipeline.Shape
	texts    []*pipeline.Text // of all prompts, training's first
	empty    *pipeline.Text
	group    *group // of rank 0, where there are several (ranks.go)
}

// openModel opens the folder, puts the adapter on, and encodes every prompt once.
func openModel(e *experiment.Experiment, o Options, lists ...[]prompts.Prompt) (*model, error) {
	if e.Episode != nil {
		return openTalker(e, o, lists...)
	}
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	precision := pipeline.BF16
	if e.Model.Precision == "f32" {
		precision = pipeline.F32
	}
	m := &model{}
	patterns, adapted := trained(e)
	open := pipeline.Options{Pool: tensor.NewPool(o.Backend), Precision: precision, Train: patterns}
	m.opened = open
	if m.pipeline, err = pipeline.Open(dir, open); err != nil {
		return nil, err
	}
	if err := m.prepare(e, adapted, lists); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *model) prepare(e *experiment.Experiment, adapted bool, lists [][]prompts.Prompt) error {
	d := m.pipeline.Defaults()
	err := heard(e, d)
	if err != nil {
		return err
	}
	if m.at, err = m.pipeline.Shape(d.Height, d.Width); err != nil {
		return err
	}
	asked := []string{""}
	for _, l := range lists {
		for _, p := range l {
			asked = append(asked, p.Text)
		}
	}
	texts, err := m.pipeline.Encode(asked...)
	if err != nil {
		return err
	}
	m.empty, m.texts = texts[0], texts[1:]
	if err := m.pipeline.FreeEncoders(); err != nil {
		return err
	}
	params, err := m.pipeline.Denoiser()
	if err != nil {
		return err
	}
	key := rng.New(uint64(e.Run.Seed))
	if adapted {
		l := e.Model.LoRA
		m.lora = nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets, Key: key.With("lora")}
		if m.adapters, err = params.AddLoRA(m.lora); err != nil {
			return fmt.Errorf("model.lora: %w", err)
		}
	}
	m.policy = &rollout.Pictures{Pipeline: m.pipeline, At: m.at, Draws: rollout.Draws{Root: key, Shared: e.Rollout.SharedNoise},
		Texts: func(n int) (*pipeline.Text, *pipeline.Text) { return m.texts[n], m.empty }}
	return m.policy.Learn(m.adapters, e.Optim, needed(e)...)
}

// heard refuses a scale of guidance that is told to a network which reads none.
func heard(e *experiment.Experiment, d pipeline.Defaults) error {
	all := []*experiment.Experiment{e}
	for i := range e.Stages {
		all = append(all, e.Stage(i))
	}
	for _, at := range all {
		if s := at.Sampler; s.GuideBy == "embedded" && s.Guidance != 1 && !d.Embedded {
			return fmt.Errorf("sampler.guidance_kind = \"embedded\": the network in %s reads no scale of guidance, and %v would be passed over"+
				" (guidance_kind = \"cfg\" combines two outputs, for twice the passes; guidance = 1 is none)", e.Model.Path, s.Guidance)
		}
	}
	return nil
}

// guidance is how [sampler] follows prompts.
func guidance(s experiment.Sampler) pipeline.Guidance {
	if s.GuideBy == "embedded" {
		return pipeline.Guidance{Scale: 1, Embedded: s.Guidance}
	}
	return pipeline.Guidance{Scale: s.Guidance, Norm: s.GuideBy == "cfg-norm"}
}

// dir is the folder that was opened.
func (m *model) dir() string {
	if m.speaker != nil {
		return m.speaker.Dir
	}
	return m.pipeline.Dir()
}

// sample sets how an iteration samples, on every rank; learning rates are multiplied with scale.
func (m *model) sample(turn experiment.Turn, root rng.Key, scale float64) error {
	for _, own := range m.all() {
		if err := own.sampleOwn(turn, root, scale); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) sampleOwn(turn experiment.Turn, root rng.Key, scale float64) (err error) {
	if m.talk != nil {
		m.talk.Draws.Root = root
		m.pace(turn, scale)
		m.distort(turn)
		return nil
	}
	p := m.policy
	p.Rows, p.Times, p.Trained, p.Guidance = turn.Rows, turn.Schedule.Timesteps, turn.Trained, guidance(turn.Sampler)
	p.Draws.Root, p.Draws.Shared = root, turn.Rollout.SharedNoise
	p.Passes = rollout.Passes{}
	p.Forest, err = forest(turn)
	return err
}

// tell lets rolls say how far they are.
func (m *model) tell(progress func(done, all int)) {
	if m.talk != nil {
		m.talk.Progress = progress
		return
	}
	m.policy.Progress = progress
}

// fixed is the policy with draws that are the same in every iteration, and other steps.
func (m *model) fixed(ctx context.Context, root rng.Key, rows []sde.Row, schedule sde.Schedule, s experiment.Sampler) trainer.Policy {
	if m.group == nil {
		return m.fixedOwn(ctx, root, rows, schedule, s)
	}
	ctx, stop := context.WithCancel(ctx)
	p := &ranks.Policy{Team: m.group.Team}
	p.Team.Stop = stop
	for _, own := range m.all() {
		p.Members = append(p.Members, own.fixedOwn(ctx, root, rows, schedule, s))
	}
	return p
}

func (m *model) fixedOwn(ctx context.Context, root rng.Key, rows []sde.Row, schedule sde.Schedule, s experiment.Sampler) trainer.Policy {
	draws := rollout.Draws{Root: root, Fixed: true}
	if m.talk != nil {
		p := *m.talk
		p.Draws, p.Context, p.Progress, p.Noise = draws, ctx, nil, nil
		return &p
	}
	p := *m.policy
	p.Rows, p.Times, p.Trained, p.Forest, p.Guidance = rows, schedule.Timesteps, nil, nil, guidance(s)
	p.Draws, p.Context, p.Progress = draws, ctx, nil
	return &p
}

// developed is what rewards judge of samples: pictures, or conversations.
func (m *model) developed(samples []trainer.Sample) ([]rewards.Item, error) {
	items := make([]rewards.Item, len(samples))
	if m.talk != nil {
		for i, s := range samples {
			items[i].Transcript = transcript(s.Item.Episode)
		}
		return items, nil
	}
	pictures, err := m.pictures(samples)
	for i := range pictures {
		items[i].Image = pictures[i]
	}
	return items, err
}

// pictures decodes final latents, each rank its share.
func (m *model) pictures(samples []trainer.Sample) ([]*vision.Image, error) {
	finals := make([][]float64, len(samples))
	for i, s := range samples {
		finals[i] = s.Item.Final
		for _, v := range finals[i] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("the latents of sample %d hold numbers that are infinite or none", i)
			}
		}
	}
	all, out := m.all(), make([]*vision.Image, len(finals))
	return out, m.each(func(r int) error {
		lo, hi := ranks.Share(r, len(all), len(finals))
		raw, err := all[r].pipeline.DecodeAll(finals[lo:hi], m.at)
		for i, x := range raw {
			if err == nil {
				out[lo+i], err = vision.FromFloats(x, m.at.Width, m.at.Height, vision.Signed, vision.ChannelsLast)
			}
		}
		return err
	})
}

func (m *model) close() error {
	if m.group != nil {
		return m.group.close()
	}
	return m.closeOwn()
}

func (m *model) closeOwn() error {
	if m.policy != nil {
		m.policy.Free()
	}
	if m.talk != nil {
		m.talk.Free()
	}
	if m.speaker != nil {
		return m.speaker.Close()
	}
	return m.pipeline.Close()
}
