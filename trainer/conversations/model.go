package conversations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/lessons"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/conversations/toolserver"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// trainingList is an experiment's training data: prompts, and lessons behind them.
func trainingList(e *experiment.Experiment) ([]prompts.Prompt, error) {
	list, err := e.Training(nil)
	if err != nil {
		return nil, err
	}
	if err := solved(e, list); err != nil {
		return nil, err
	}
	lessons, _, err := lessons.List(e)
	return append(list, lessons...), err
}

// Model is a model.Model: a policy, and a run's other methods.
type Model struct {
	*rollout.Policy
	opened   *experiment.Experiment
	adapter  *model.Adapter // nil where parameters of the network itself are trained
	train    []prompts.Prompt
	rewards  model.Rewards
	settings experiment.Settings // of the iteration under way
	shift    loss.Shift          // of objectives over judged answers
	lessons  *lessons.Reader     // nil: nothing is learned from conversations of a file
	likely   ledger.Spread       // totals of its likeliest answers

	measuring func(done, all int) // is called with the progress of evaluations; nil: nothing is called
}

// Modality is how models that hold conversations are opened.
func Modality() model.Modality {
	return model.Modality{
		Name:     "conversations",
		Samples:  "episodes",
		Looks:    true,
		Inspect:  chat.Inspect,
		Networks: chat.Networks,
		Prompts:  trainingList,
		Ready:    ready,
		Open: func(e *experiment.Experiment, o model.Options) (model.Model, error) {
			m, err := OpenModel(e, o)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
		Possible: func(settings experiment.Settings) error {
			_, err := (&Model{}).Objective(settings, nil)
			return err
		},
		Memory: predictMemory,
	}
}

// OpenModel opens a vision-language model's folder, and puts the adapter on. Questions open their
// pictures when they are asked.
func OpenModel(e *experiment.Experiment, o model.Options) (*Model, error) {
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	patterns, _ := e.Model.Trained()
	opened := chat.Options{Pool: tensor.NewPool(o.Backend), F32: e.Model.Precision == "f32", Train: patterns, Template: e.Model.Template, Home: o.Stock.Home(o.HomeOf(e)), Stock: o.Stock, Quantize: e.Model.Quantization()}
	opened.Pool.Limit = o.Held
	if opened.Blank = e.Model.Blank; len(opened.Blank) > 0 {
		key := rng.New(uint64(e.Run.Seed)).With("blank")
		opened.Draw = &key
	}
	s, err := chat.Open(dir, opened)
	if err != nil {
		return nil, err
	}
	if err := s.InitTokens(e.Model.NewTokens, rng.New(uint64(e.Run.Seed)).With("blank")); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m := &Model{opened: e, train: o.Train, rewards: o.Rewards, measuring: o.Measuring, Policy: &rollout.Policy{Played: new(atomic.Int64), VLM: s, Context: o.Context, Progress: o.Progress, Logf: o.Logf}}
	if err := m.prepare(e, o); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Model) prepare(e *experiment.Experiment, o model.Options) (err error) {
	if m.adapter, err = model.Adapt(e, m.VLM.Params, chat.Known(m.VLM.Params)); err != nil {
		return err
	}
	if len(e.Lessons()) > 0 {
		if m.lessons, err = lessons.NewReader(e); err != nil {
			return err
		}
	}
	p := e.Episode
	if m.Protocol, err = p.Play(); err != nil {
		return err
	}
	key := rng.New(uint64(e.Run.Seed))
	m.Limits, m.TurnTokens, m.Parallel, m.Sampling = p.Limits(), p.TurnTokens, p.Parallel, p.Sampling
	if p.Parallel == 0 && e.Run.Memory == "" {
		switch {
		case p.Exec != nil: // code that computes on this machine
			m.Spare = m.AtOnce()
		case len(p.Served) > 0:
			m.Spare = m.RowsToSpare()
		}
	}
	m.VideoOptions, m.Pixels = config.Filled(p.Clips), toolserver.PixelsOf(e)
	m.Silence, m.Exec, m.Draws, m.Prompts = p.Silence, p.Exec, trainer.Draws{Root: key}, promptReader(e, o, m.VLM.Template)
	if m.Tools, err = toolserver.Open(p, o.Cache); err != nil {
		return err
	}
	if m.Engine, err = rollout.OpenEngine(e); err != nil {
		return err
	}
	if m.Engine != nil {
		m.Engine.Write = func(dir string) error { return m.WriteAdapter(trainer.Current, dir) }
	}
	if err := m.openTeacher(e); err != nil {
		return err
	}
	m.Place = o.Place
	if err := m.Learn(m.adapter.On(), e.Optim, model.Needed(e)...); err != nil || !hasCritic(e) {
		return err
	}
	return m.AddValueHead(key.With("values"), e.Optim)
}

// promptReader reads the prompt of a number, training's first.
func promptReader(e *experiment.Experiment, o model.Options, form vlm.Template) func(n int) (chat.Prompt, error) {
	return func(n int) (chat.Prompt, error) {
		list, file := o.Train, e.Named()
		if n >= len(list) {
			n, list, file = n-len(list), o.HeldOut, e.Evaluate.Prompts
		}
		p := list[n]
		pictures, err := p.Pictures(p.Folder(file))
		if err != nil {
			return chat.Prompt{}, err
		}
		clips, err := p.Clips(p.Folder(file))
		if err != nil {
			return chat.Prompt{}, err
		}
		q := chat.PromptOf(p.Text, clips, pictures)
		own, err := e.Episode.Of(p)
		if err != nil {
			return chat.Prompt{}, err
		}
		if own != e.Episode {
			q.Episode = own
		}
		q.Meta = p.Meta
		if row, ok := p.Messages(); ok {
			c, err := sft.ReadPrompt(row)
			if err != nil {
				return chat.Prompt{}, err
			}
			q.Messages, q.Tools = c.Messages, c.Tools
			if len(c.Clips) > 0 && len(q.Clips) == 0 {
				if q.Clips, err = prompts.OpenClips(p.Folder(file), c.Clips); err != nil {
					return chat.Prompt{}, err
				}
			}
		}
		return q.WithInstructions(own, e.Model.Path, form)
	}
}

// Begin implements model.Model.
func (m *Model) Begin(settings experiment.Settings, root rng.Key, scale float64) error {
	m.settings, m.Draws.Root, m.Supervised = settings, root, settings.Kind().Written()
	m.Engine.Moved()
	m.setValueRate(settings, scale)
	m.distort(settings)
	m.shuffle(settings)
	m.guide(settings)
	m.Tree = settings.Episode.Tree
	return nil
}

// Fixed is model.Model's: of the settings only draws matter, and evaluate.turns. No engine draws: held-out samples
// are a function of the weights.
func (m *Model) Fixed(ctx context.Context, settings experiment.Settings, root rng.Key) trainer.Policy {
	p := *m.Policy
	if settings.Experiment != nil && settings.Evaluate.Turns > 0 {
		p.Limits.Turns = settings.Evaluate.Turns
	}
	p.Draws = trainer.Draws{Root: root, Fixed: true, Before: len(m.train) - len(prompts.LessonsOf(m.train, ""))}
	p.Context, p.Progress, p.Noise, p.Control, p.Guided, p.Given, p.Tree, p.Supervised, p.Engine = ctx, m.measuring, nil, nil, nil, nil, nil, false, nil
	return &p
}

// Portion is model.Model's: of several devices, where each tells of nothing before it is done. Episodes end one after
// another, and the places of those that have ended are taken by others, so that several times as many as are under way
// cost little.
func (m *Model) Portion() int {
	if m.Engine != nil {
		return 4 * max(m.AtOnce(), m.Engine.AtOnce)
	}
	return 4 * m.AtOnce()
}

// Items are the transcripts.
func (m *Model) Items(samples []trainer.Sample) ([]rewards.Item, error) {
	items := make([]rewards.Item, len(samples))
	for i, s := range samples {
		items[i].Transcript = rollout.RewardTranscript(rollout.EpisodeOf(s))
	}
	return items, nil
}

// Shape applies the penalties of [episode] on long answers and cut ones to totals.
func (m *Model) Shape(samples []trainer.Sample, totals []float64) {
	for i, s := range samples {
		e := rollout.EpisodeOf(s)
		totals[i] = m.settings.Episode.Shaped(totals[i], e.Length(), e.End == "cut" || e.Over)
	}
}

// Passes implements model.Model.
func (m *Model) Passes() *ledger.Passes { return nil }

// Dir is the folder that was opened.
func (m *Model) Dir() string { return m.VLM.Dir }

// Close gives everything back.
func (m *Model) Close() error {
	m.Free()
	err := m.VLM.Close()
	if m.lessons != nil {
		err = errors.Join(err, m.lessons.Close())
	}
	err = errors.Join(err, m.Tools.Close(), m.Engine.Close())
	if m.Teacher != nil {
		err = errors.Join(err, m.Teacher.Close())
	}
	return err
}

// A checkpoint holds the policy's learner, and behind it that of a value head.

// Settle is model.Model's: a head of values has a pace of its own.
func (m *Model) Settle(o optim.Options, moves experiment.Moves) { m.Learner.Settle(o, moves) }

// Tensors implements model.Model.
func (m *Model) Tensors() ([]safetensors.Tensor, error) {
	all := m.Learner.Tensors("")
	if head := m.ValueLearner(); head != nil {
		all = append(all, head.Tensors(headPrefix)...)
	}
	if m.shifts() {
		all = append(all, m.shiftTensor())
	}
	return all, nil
}

// Load implements model.Model.
func (m *Model) Load(f *safetensors.File) error {
	err := m.Learner.Load(f, "")
	if head := m.ValueLearner(); head != nil && err == nil {
		err = head.Load(f, headPrefix)
	}
	if m.shifts() && err == nil {
		err = m.loadShift(f)
	}
	return err
}

// Moved are the parameters that move, those of a head of values behind.
func (m *Model) Moved() []*autograd.Param {
	if head := m.ValueLearner(); head != nil {
		return slices.Concat(m.Learner.Moved(), head.Moved())
	}
	return m.Learner.Moved()
}

// WriteAdapter implements model.Model.
func (m *Model) WriteAdapter(w trainer.Weights, dir string) error {
	return m.Learner.With(w, func() error { return m.adapter.Write(dir) })
}

func (m *Model) Bytes() int64 { return m.Learner.Bytes() }

func (m *Model) Keeps(w trainer.Weights) bool { return m.Learner.Keeps(w) }

// headPrefix begins the names of a head of values in a checkpoint.
const headPrefix = "value."

// ready sees whether the model's code can be run.
func ready(ctx context.Context, e *experiment.Experiment) (news string, err error) {
	_, long, err := lessons.List(e)
	if err != nil {
		return "", err
	}
	news = lessons.LeftOut(long, e.Episode.Tokens)
	if e.Episode.Exec == nil {
		return news, nil
	}
	version, err := program.Probe(ctx, e.Episode.Exec)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(news+fmt.Sprintf("\ncode that the model writes is run by %s: %s", e.Episode.Exec.Words(), version), "\n"), nil
}

// Objective is model.Model's: every objective of an episode is one of tokens.
func (m *Model) Objective(settings experiment.Settings, _ trainer.Policy) (trainer.Objective, error) {
	if settings.Kind().Learns == loss.JudgedAnswers {
		return m.preferring(settings), nil
	}
	if settings.Kind().Written() {
		return trainer.SFT{Aggregate: settings.Loss.Aggregate}, nil
	}
	kl := settings.Loss.KL
	o := trainer.TokenPolicy{Loss: settings.Loss.Tokens(), Reference: kl.Weight > 0 && kl.Reference != "old", Anchor: model.Anchor(settings)}
	if settings.Comparison().ValueHead {
		o.Critic = &trainer.Critic{Clip: settings.Loss.Value.ClipRange, Aggregate: loss.Aggregate{Mode: "token-mean"}}
	}
	if settings.Kind().Has(loss.TokenDraws) {
		o.Draw = func(k trainer.Key, token int) float64 {
			return m.Draws.Of("clip-cov", k).Step(token).Draw().Float64()
		}
	}
	return m.imitating(settings, o), nil
}

// guide says which keys of an iteration are given how much.
func (m *Model) guide(settings experiment.Settings) {
	g := settings.Episode.Guided
	if g == nil {
		return
	}
	first := g.Of(settings.Rollout.Group)
	m.Guided, m.Given = g, func(k trainer.Key) int {
		if k.Sample >= first {
			return 0
		}
		return settings.Given
	}
}

// solved sees whether there are solutions to give.
func solved(e *experiment.Experiment, list []prompts.Prompt) error {
	g := e.Episode.Guided
	if g == nil {
		return nil
	}
	for _, p := range list {
		text, err := g.Solution(p.Meta)
		if err != nil {
			return fmt.Errorf("prompt %q: %w", p.Text, err)
		}
		if text != "" {
			return nil
		}
	}
	return fmt.Errorf("no prompt has meta.%s, whose beginning [episode.guided] gives\nhint: {\"prompt\": \"...\", \"meta\": {\"%s\": \"First, ...\"}}; episode.guided.key names another key", g.Key, g.Key)
}

// distort says which keys of an iteration see distorted pictures.
func (m *Model) distort(settings experiment.Settings) {
	n := settings.Episode.Noisy
	if n == nil {
		return
	}
	step, first := augment.NoiseStep(*n, settings.Iteration+1, settings.Run.Iterations), settings.Rollout.Group-n.Of(settings.Rollout.Group)
	m.Clean = n.Old == "clean"
	m.Noise = func(k trainer.Key) int {
		if k.Sample < first {
			return -1
		}
		return step
	}
}

// shuffle says which keys of an iteration are controls.
func (m *Model) shuffle(settings experiment.Settings) {
	s := settings.Episode.Shuffled
	if s == nil {
		return
	}
	first := settings.Rollout.Group - s.Of(settings.Rollout.Group)
	m.Control = func(k trainer.Key) bool { return k.Sample >= first }
}
