package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
	"github.com/darkroom-rl/darkroom/trainer/ranks"
)

// The beginning of a run: everything is opened in the order in which mistakes can be reported cheaply, prompts and
// rewards before weights. Opened parts are closed again where a later part fails.

// open prepares everything, so that mistakes are found before anything is computed.
func open(ctx context.Context, m model.Modality, e *experiment.Experiment, o Options) (l *loop, err error) {
	l = &loop{Experiment: e, Options: o, ctx: ctx, modality: m}
	if l.train, err = m.Prompts(e); err != nil {
		return nil, err
	}
	if err := enough(e, l.train); err != nil {
		return nil, err
	}
	if e.Evaluate.Prompts != "" {
		if l.heldOut, err = e.Open(e.Evaluate.Prompts); err != nil {
			return nil, err
		}
	}
	if err := possible(m, e); err != nil {
		return nil, err
	}
	if o.Restart {
		if err := l.setAside(); err != nil {
			return nil, err
		}
	}
	if l.folder, err = folder.Open(o.Dir, o.Resume); err != nil {
		return nil, err
	}
	l.build()
	if err := l.start(); err != nil {
		return nil, errors.Join(err, l.close(err))
	}
	return l, nil
}

// setAside keeps the run of the folder beside it.
func (l *loop) setAside() error {
	to, err := folder.SetAside(l.Dir)
	if err == nil && to != "" {
		l.Logf("the run that was in %s is in %s now", l.Dir, to)
	}
	return err
}

// build makes the parts of a run that has not begun. Rewards, the model and the files are opened later.
func (l *loop) build() {
	l.inputs = inputs{l.Experiment, l.Version, l.backends(), l.train, l.heldOut, l.folder, l.Logf}
	l.rewards = rewardSet{failures: map[string]int{}, ctx: l.ctx, device: &l.device, say: l.Logf}
	l.selection = newSelection(l.Experiment, l.train)
	l.evaluation = evaluation{e: l.Experiment, heldOut: l.heldOut, behind: len(l.train), rewards: &l.rewards, record: &l.record, clock: &l.clock, say: l.Logf, room: model.EvaluatedBytes}
	l.monitors = newMonitors(l.Experiment, l.folder.Dir)
	l.checkpoints = checkpoints{folder: l.folder, keep: l.Checkpoint.Keep, newest: -1, say: l.Logf}
	l.record.folder, l.record.say = l.folder, l.Logf
	l.clock = clock{limit: l.Seconds, report: l.Part}
	l.trainer = &trainer.Trainer{Actor: model.Actor(l.Experiment)}
	for _, w := range model.Needed(l.Experiment) {
		if w != trainer.Reference && w <= trainer.Lagged { // which moves the younger ones
			l.trainer.Memories = append(l.trainer.Memories, trainer.Memory{Weights: w})
		}
	}
}

// backends are those of all ranks.
func (l *loop) backends() []kernels.Backend {
	return append([]kernels.Backend{l.Backend}, l.Further...)
}

// start opens rewards, the model and the files, and goes on after the last checkpoint where there is one.
func (l *loop) start() (err error) {
	defer kernels.Recover(&err)
	from, err := l.checkpoints.find()
	if err != nil {
		return err
	}
	begun, changed := l.inputs.check()
	if err := errors.Join(l.inputs.checkConfig(), changed, l.checkpoints.useProducts(l.Backend)); err != nil {
		return err
	}
	l.memory = memory{free: l.Free}
	l.memory.before = l.memory.unused()
	judging := l.backends()
	if l.Fleet != nil { // workers have the networks of rewards
		judging = judging[:1]
	}
	if err := l.rewards.open(l.Rewards, judging...); err != nil {
		return err
	}
	if l.Fleet == nil && l.modality.Name == "pictures" && !l.AllSupervised() {
		if err := l.rewards.tryPrograms(l.Experiment, l.train); err != nil {
			return err
		}
	}
	if err := l.openModel(); err != nil {
		return err
	}
	l.evaluation.model = l.model
	if err := l.checkpoints.room(l.model.Bytes()); err != nil {
		return err
	}
	// From here on the folder holds a run.
	if err := errors.Join(l.inputs.writeConfig(), l.inputs.write(l.model.Dir(), l.wire)); err != nil {
		return err
	}
	if err := l.resetStage(0); err != nil {
		return err
	}
	ends, err := l.resume(from)
	if err != nil {
		return err
	}
	if err := l.record.open(ends, l.model.Files()); err != nil {
		return err
	}
	manifestSum := ""
	if begun != nil {
		manifestSum = begun.HeldOutSum
	}
	dropped, err := l.evaluation.compareSettings(manifestSum)
	if dropped {
		l.monitors.forgetHeldOut()
	}
	if err != nil {
		return err
	}
	return l.clock.resume(l.folder.Path("timing.jsonl"), l.trainer.Iteration, l.attempt.Attempt)
}

// openModel opens the model on every backend: several are ranks (trainer/ranks), and one model to the run.
func (l *loop) openModel() error {
	m := l.modality
	news, err := m.Ready(l.ctx, l.Experiment)
	if err != nil {
		return err
	}
	if news != "" {
		l.Logf("%s", news)
	}
	o := model.Options{Backend: l.Backend, Train: l.train, HeldOut: l.heldOut, Rewards: l, Cache: l.Cache, Arithmetic: l.Class}
	if o.Fit, err = l.fit(); err != nil {
		return err
	}
	o.Logf = l.Logf
	if l.Rolling != nil {
		o.Progress = func(done, all int) {
			done, all = l.progress.of(done, all)
			l.Rolling(l.trainer.Iteration, done, all)
		}
	}
	if l.Options.Measuring != nil {
		o.Measuring = func(done, all int) { l.Options.Measuring(l.evaluation.made(done, all)) }
	}
	o.Ahead = func() []int {
		return l.selection.ahead(iteration{l.trainer.Iteration, l.current.settings, l.root(), l.attempt.Attempt})
	}
	if l.Fleet != nil {
		return l.openFleet(o)
	}
	l.model, err = l.openHere(o)
	return err
}

// openHere opens the model on every device of this program: one model to the run.
func (l *loop) openHere(o model.Options) (model.Model, error) {
	o.Stock = nn.NewStock(l.backends()...)
	if err := l.placeStates(&o); err != nil {
		return nil, err
	}
	if len(l.Further) == 0 && !l.Run.Parted() && l.Run.TokenShares() == 1 {
		return l.modality.Open(l.Experiment, o)
	}
	group := ranks.Group{Backends: l.backends(), Wire: l.Wire, Limit: l.Run.Patience()}
	if n, on := l.Run.TokenShares(), group.Backends; n > 1 {
		group.Tokens = true
		if len(on) < n {
			group.Backends, group.Wire = make([]kernels.Backend, n), nil
			for r := range n {
				group.Backends[r] = on[r*len(on)/n]
			}
		}
	}
	if l.Run.Parted() {
		group.Shards = l.Run.Shards
	}
	if group.Wire == nil {
		group.Wire = &exchange.Host{Ranks: group.Backends, Limit: group.Limit}
	}
	if len(group.Backends) > 1 {
		l.wire = group.Wire.String()
	}
	return group.Open(o, func(o model.Options) (model.Model, error) { return l.modality.Open(l.Experiment, o) })
}

// placeStates says where the states of trained parameters lie. Those in the host's memory are moved by the CPU.
func (l *loop) placeStates(o *model.Options) error {
	home, host := o.StatesAt(l.Experiment), l.Backend
	if home == nn.Host && !isHost(host) {
		path, err := isa.Choose()
		if err != nil {
			return err
		}
		l.host = cpu.NewWith(cpu.Options{Path: path})
		host = l.host
	}
	o.States = model.NewStates(home, max(len(l.backends()), l.Run.TokenShares()), host)
	return nil
}

// close closes everything, after a run that ended with an error or without. A rank that was left behind may still use
// the rest.
func (l *loop) close(after error) error {
	if exchange.LeftBehind(after) {
		return errors.Join(l.record.close(), l.folder.Close())
	}
	var errs []error
	if l.model != nil {
		errs = append(errs, l.model.Close()) // which may have lines to write
	}
	if l.host != nil {
		l.host.Close()
	}
	for _, s := range l.rewards.shared {
		s.Close()
	}
	return errors.Join(append(errs, l.record.close(), l.rewards.close(), l.folder.Close())...)
}

// modalities are the kinds of models; the first that an experiment is of counts. A further one is a line.
func modalities() []kind {
	return []kind{
		{conversations.Modality(), func(e *experiment.Experiment) bool { return e.Episode != nil }},
		{pictures.Clips(), func(e *experiment.Experiment) bool { return slices.Contains(e.Makes(), "clips") }},
		{pictures.Modality(), func(*experiment.Experiment) bool { return true }},
	}
}

// kind is a modality, and whether an experiment is of it.
type kind struct {
	model.Modality
	of func(e *experiment.Experiment) bool
}

// ModalityOf is an experiment's.
func ModalityOf(e *experiment.Experiment) model.Modality {
	all := modalities()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.of(e) })].Modality
}

// Settings that this version cannot train yet are refused: no key is ignored in silence.

// Possible reports parts of an experiment that cannot be trained yet.
func Possible(e *experiment.Experiment) error { return possible(ModalityOf(e), e) }

// possible is Possible of a modality.
func possible(m model.Modality, e *experiment.Experiment) error {
	first := 0
	for _, s := range e.Stages {
		if err := possibleTurn(m, e, first); err != nil {
			return err
		}
		first += s.Iterations
	}
	return possibleTurn(m, e, first)
}

// possibleTurn reports whether an iteration can be trained.
func possibleTurn(m model.Modality, e *experiment.Experiment, i int) error {
	settings, err := e.Iteration(i)
	if err != nil {
		return err
	}
	return m.Possible(settings)
}

// ErrFew says that an iteration would have a prompt twice.
var ErrFew = errors.New("too few prompts")

// enough refuses lists that are shorter than an iteration: of a prompt that is there twice every sample
// would be, too.
func enough(e *experiment.Experiment, list []prompts.Prompt) error {
	for _, at := range e.EachStage() {
		n, of := len(poolOf(at, list)), at.Rollout.Named()
		if at.Supervised() {
			n, of = len(prompts.LessonsOf(list, at.Rollout.Lessons)), at.Rollout.Lessons
		}
		if per := at.Rollout.PromptsPerIteration; per > n {
			return fmt.Errorf("%w: %s has %d, and rollout.prompts_per_iteration is %d\nhint: write at most %d; a larger rollout.group makes more of each prompt", ErrFew, of, n, per, n)
		}
	}
	return nil
}
