package conversations

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Model is a model.Model: a policy, with what a run asks of it beside rolls and answers.
type Model struct {
	*Policy
	opened  *experiment.Experiment
	adapter *model.Adapter // nil where parameters of the network itself are trained
	train   []prompts.Prompt
	rewards model.Rewards
	turn    experiment.Turn // of the iteration under way
	shift   loss.Shift      // of objectives over judged answers
	teacher *lessonReader   // nil: nothing is learned from conversations of a file
	likely  ledger.Spread   // totals of its likeliest answers
}

// Modality is how models that hold conversations are opened.
func Modality() model.Modality {
	return model.Modality{
		Name:     "conversations",
		Samples:  "episodes",
		Looks:    true,
		Inspect:  inspect,
		Networks: networks,
		Prompts:  trainingList,
		Ready:    ready,
		Open: func(e *experiment.Experiment, o model.Options) (model.Model, error) {
			m, err := OpenModel(e, o)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
		Possible: func(turn experiment.Turn) error {
			_, err := (&Model{}).Objective(turn, nil)
			return err
		},
		Memory: predict,
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
	opened := Options{Pool: tensor.NewPool(o.Backend), F32: e.Model.Precision == "f32", Train: patterns, Template: e.Model.Template}
	opened.Pool.Limit = o.Held
	if opened.Blank = e.Model.Blank; len(opened.Blank) > 0 {
		key := rng.New(uint64(e.Run.Seed)).With("blank")
		opened.Draw = &key
	}
	s, err := Open(dir, opened)
	if err != nil {
		return nil, err
	}
	if err := s.newRows(e.Model.NewTokens, rng.New(uint64(e.Run.Seed)).With("blank")); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m := &Model{opened: e, train: o.Train, rewards: o.Rewards, Policy: &Policy{played: new(atomic.Int64), Speaker: s, Context: o.Context, Progress: o.Progress}}
	if err := m.prepare(e, o); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Model) prepare(e *experiment.Experiment, o model.Options) (err error) {
	if m.adapter, err = model.Adapt(e, m.Speaker.Params, Known(m.Speaker.Params)); err != nil {
		return err
	}
	if len(e.Lessons()) > 0 {
		if m.teacher, err = newTeacher(e); err != nil {
			return err
		}
	}
	p := e.Episode
	if m.Protocol, err = p.Play(); err != nil {
		return err
	}
	key := rng.New(uint64(e.Run.Seed))
	m.Limits, m.Turn, m.Parallel, m.Sampling = p.Limits(), p.TurnTokens, p.Parallel, p.Sampling
	m.Films, m.Share = experiment.Filled(p.Clips), shareOf(e)
	m.Silence, m.Exec, m.Draws, m.Ask = p.Silence, p.Exec, trainer.Draws{Root: key}, asker(e, o, m.Speaker.Template)
	if m.Served, err = openOutside(p, o.Cache); err != nil {
		return err
	}
	if m.Far, err = openFar(e); err != nil {
		return err
	}
	if m.Far != nil {
		m.Far.Write = func(dir string) error { return m.WriteAdapter(trainer.Current, dir) }
	}
	if err := m.openTutor(e); err != nil {
		return err
	}
	if err := m.Learn(m.adapter.On(), e.Optim, model.Needed(e)...); err != nil || !hasCritic(e) {
		return err
	}
	return m.Expect(key.With("values"), e.Optim)
}

// asker asks the question of a number, training's first.
func asker(e *experiment.Experiment, o model.Options, form vlm.Template) func(n int) (Question, error) {
	return func(n int) (Question, error) {
		list, file := o.Train, e.Named()
		if n >= len(list) {
			n, list, file = n-len(list), o.HeldOut, e.Evaluate.Prompts
		}
		p := list[n]
		pictures, err := p.Pictures(p.Folder(file))
		if err != nil {
			return Question{}, err
		}
		clips, err := p.Clips(p.Folder(file))
		if err != nil {
			return Question{}, err
		}
		q := about(p.Text, clips, pictures)
		own, err := e.Episode.Of(p)
		if err != nil {
			return Question{}, err
		}
		if own != e.Episode {
			q.By = own
		}
		q.Meta = p.Meta
		if row, ok := p.Messages(); ok {
			c, err := sft.ReadAsked(row)
			if err != nil {
				return Question{}, err
			}
			q.Messages, q.Tools = c.Messages, c.Tools
			if len(c.Clips) > 0 && len(q.Clips) == 0 {
				if q.Clips, err = prompts.OpenClips(p.Folder(file), c.Clips); err != nil {
					return Question{}, err
				}
			}
		}
		return q.Told(own, e.Model.Path, form)
	}
}

// Begin implements model.Model.
func (m *Model) Begin(turn experiment.Turn, root rng.Key, scale float64) error {
	m.turn, m.Draws.Root, m.Supervised = turn, root, turn.Kind().Written()
	m.Far.Moved()
	m.pace(turn, scale)
	m.distort(turn)
	m.shuffle(turn)
	m.guide(turn)
	m.Tree = turn.Episode.Tree
	return nil
}

// Fixed is model.Model's: of a turn only its draws matter, and evaluate.turns. No engine draws: what is held out is a
// function of the weights.
func (m *Model) Fixed(ctx context.Context, turn experiment.Turn, root rng.Key) trainer.Policy {
	p := *m.Policy
	if turn.Experiment != nil && turn.Evaluate.Turns > 0 {
		p.Limits.Turns = turn.Evaluate.Turns
	}
	p.Draws = trainer.Draws{Root: root, Fixed: true, Before: len(m.train) - len(prompts.LessonsOf(m.train, ""))}
	p.Context, p.Progress, p.Noise, p.Control, p.Guided, p.Given, p.Tree, p.Supervised, p.Far = ctx, nil, nil, nil, nil, nil, nil, false, nil
	return &p
}

// Portion is model.Model's: of several devices, where each tells of nothing before it is done. Episodes end one after
// another, and the places of those that have ended are taken by others, so that several times as many as are under way
// cost little.
func (m *Model) Portion() int {
	if m.Far != nil {
		return 4 * max(m.AtOnce(), m.Far.AtOnce)
	}
	return 4 * m.AtOnce()
}

// Items are the transcripts.
func (m *Model) Items(samples []trainer.Sample) ([]rewards.Item, error) {
	items := make([]rewards.Item, len(samples))
	for i, s := range samples {
		items[i].Transcript = transcript(EpisodeOf(s))
	}
	return items, nil
}

// Shape makes of totals what [episode] says of long answers and of those that were cut off.
func (m *Model) Shape(samples []trainer.Sample, totals []float64) {
	for i, s := range samples {
		e := EpisodeOf(s)
		totals[i] = m.turn.Episode.Shaped(totals[i], e.Length(), e.End == "cut" || e.Over)
	}
}

// Passes implements model.Model.
func (m *Model) Passes() *ledger.Passes { return nil }

// Dir is the folder that was opened.
func (m *Model) Dir() string { return m.Speaker.Dir }

// Close gives everything back.
func (m *Model) Close() error {
	m.Free()
	err := m.Speaker.Close()
	if m.teacher != nil {
		err = errors.Join(err, m.teacher.Close())
	}
	err = errors.Join(err, m.Served.Close(), m.Far.Close())
	if m.tutor != nil {
		err = errors.Join(err, m.tutor.Close())
	}
	return err
}

// What a checkpoint holds is the policy's learner, and behind it that of a head of values.

// Settle is model.Model's: a head of values has a pace of its own.
func (m *Model) Settle(o optim.Options, moves experiment.Moves) { m.learner.Settle(o, moves) }

// Tensors implements model.Model.
func (m *Model) Tensors() ([]safetensors.Tensor, error) {
	all := m.learner.Tensors("")
	if head := m.Critic(); head != nil {
		all = append(all, head.Tensors(headPrefix)...)
	}
	if m.shifts() {
		all = append(all, m.shiftTensor())
	}
	return all, nil
}

// Load implements model.Model.
func (m *Model) Load(f *safetensors.File) error {
	err := m.learner.Load(f, "")
	if head := m.Critic(); head != nil && err == nil {
		err = head.Load(f, headPrefix)
	}
	if m.shifts() && err == nil {
		err = m.loadShift(f)
	}
	return err
}

// Moved are the parameters that move, those of a head of values behind.
func (m *Model) Moved() []*autograd.Param {
	if head := m.Critic(); head != nil {
		return slices.Concat(m.learner.Moved(), head.Moved())
	}
	return m.learner.Moved()
}

// WriteAdapter implements model.Model.
func (m *Model) WriteAdapter(w trainer.Weights, dir string) error {
	return m.learner.With(w, func() error { return m.adapter.Write(dir) })
}

func (m *Model) Bytes() int64                 { return m.learner.Bytes() }
func (m *Model) Keeps(w trainer.Weights) bool { return m.learner.Keeps(w) }

// headPrefix begins the names of a head of values in a checkpoint.
const headPrefix = "value."
