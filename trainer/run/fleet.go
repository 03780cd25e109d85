package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rolls and rewards by other processes (trainer/fleet): the setup that workers get before their first job, the work
// that they share, and, from Worker on, their side.

// openFleet opens the model, whose rolls are shared out.
func (l *loop) openFleet(o model.Options) error {
	s, err := l.setup()
	if err != nil {
		return err
	}
	by, err := l.Fleet()
	if err != nil {
		return err
	}
	l.fleet = by.Rolls
	for _, f := range []*fleet.Fleet{by.Rolls, by.Scores, by.Networks, by.Gradients} {
		if f != nil {
			f.Log = l.logJob
		}
	}
	if err := errors.Join(l.rewards.share(by.Scores, s, false), l.rewards.share(by.Networks, s, true)); err != nil {
		return err
	}
	l.model, err = l.fleet.Open(s, l.Experiment, o, by.Gradients, l.planned, l.openHere)
	return err
}

// own is the model that computes here, behind the fleet's.
func (l *loop) own() model.Model {
	if m, ok := l.model.(interface{ Own() model.Model }); ok {
		return m.Own()
	}
	return l.model
}

// replaced reports whether a check put other samples in the place of workers', which have to be judged again.
func replaced(err error) bool { return errors.Is(err, fleet.ErrReplaced) }

// misled reports whether an update was dropped, whose iteration is to begin anew.
func misled(err error) bool { return errors.Is(err, fleet.ErrMisled) }

// planned is the roll of an iteration to come, as far as that does not depend on those before it.
func (l *loop) planned(i int) (p fleet.Planned, err error) {
	if p.Settings, err = l.Iteration(i); err != nil || p.Settings.Supervised() || p.Settings.Rollout.Offline {
		return p, err
	}
	l.selection.giveHints(&p.Settings) // as much as now: with run.lag it stays
	p.Root = l.root()
	p.Keys = l.selection.keys(iteration{i, p.Settings, p.Root, l.attempt.Attempt})
	return p, nil
}

// setup is the setup that a worker opens.
func (l *loop) setup() (s fleet.Setup, err error) {
	var config bytes.Buffer
	if err := l.Write(&config); err != nil {
		return s, err
	}
	dir, err := assets.Resolve(l.Model.Path)
	if err != nil {
		return s, err
	}
	files, err := modelFiles(dir)
	if err != nil {
		return s, err
	}
	networks, err := l.rewards.networkFiles(l.Rewards)
	if err != nil {
		return s, err
	}
	list, err := json.Marshal(files)
	return fleet.Setup{Networks: networks, Version: l.Version, Class: l.Class, Config: config.String(), Model: fleet.HashOf(list), Files: list, Train: l.train, HeldOut: l.heldOut, Lists: prompts.Stretches(slices.Concat(l.train, l.heldOut))}, err
}

// logJob reports a job of a worker, and writes it down.
func (l *loop) logJob(e fleet.Entry) {
	if l.Job != nil {
		l.Job(e)
	}
	l.record.job(e)
}

// Fleets are workers that roll, that ask rewards outside of the program, that compute rewards with networks, and that
// compute gradients; nil: a run without them.
type Fleets struct{ Rolls, Scores, Networks, Gradients *fleet.Fleet }

// share lets workers ask rewards outside, or compute those with networks.
func (s *rewardSet) share(by *fleet.Fleet, setup fleet.Setup, network bool) error {
	if by == nil || !slices.ContainsFunc(s.all, func(r reward) bool { return network && r.Network || !network && r.Outside }) {
		return nil
	}
	scores, err := by.OpenScores(setup, network)
	if err != nil {
		return err
	}
	s.shared = append(s.shared, scores)
	for k := range s.all {
		r := &s.all[k]
		if network && !r.Network || !network && !r.Outside {
			continue
		}
		if network {
			r.there = scores.There
		}
		r.Opened = r.Through(func(ctx context.Context, items []rewards.Item, own rewards.Judge) []rewards.Result {
			if network {
				own = exclusive{s.device, own}
			}
			return scores.Score(ctx, r.name, items, own)
		})
	}
	return nil
}

// exclusive is a reward that computes while nothing else does on the device.
type exclusive struct {
	device *sync.Mutex
	own    rewards.Judge
}

func (w exclusive) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	w.device.Lock()
	defer w.device.Unlock()
	return w.own.Judge(ctx, items)
}

// networkFiles are the files of rewards that workers may compute.
func (s *rewardSet) networkFiles(list []experiment.Reward) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	for k, r := range s.all {
		if !r.Network {
			continue
		}
		files, err := rewardFiles(list[k].Path)
		if err != nil {
			return nil, fmt.Errorf("reward %s: %w", r.name, err)
		}
		text, err := json.Marshal(files)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]json.RawMessage{}
		}
		all[r.name] = text
	}
	return all, nil
}

// rewardFiles are those of the folder that a reward names; none: it is part of the program.
func rewardFiles(path string) ([]ModelFile, error) {
	if path == "" {
		return nil, nil
	}
	dir, err := assets.Resolve(path)
	if err != nil {
		return nil, err
	}
	return modelFiles(dir)
}

// Card: the experiment of a run that another process trains names programs and environment variables. A worker starts
// and reads none of them unless its options allow it. Its computations, and the servers that it asks in a role of
// rewards, follow from the experiment alone.
//
// Invariant (tests): before a model, a tool or a reward is opened on a worker, all that it demands is allowed.

// Allowed has a worker's permissions for a run on its machine beside computing.
type Allowed struct {
	Programs bool     // exec rewards, and tools and code of episodes
	Env      []string // names of environment variables
}

// String describes it for people.
func (a Allowed) String() string {
	programs, env := "no program of the run", "no environment variable"
	if a.Programs {
		programs = "programs that the run names"
	}
	if len(a.Env) > 0 {
		env = "the environment variables " + strings.Join(a.Env, ", ")
	}
	return fmt.Sprintf("it starts %s, and hands over %s", programs, env)
}

// refuses is why demands are not met; nil: they are.
func (a Allowed) refuses(all []experiment.Demand) error {
	var errs []error
	for _, d := range all {
		if d.Program != "" && !a.Programs {
			errs = append(errs, fmt.Errorf("%s starts a program (%s), and this worker allows none\nhint: 'darkroom worker --allow-programs', where you trust who trains with this machine", d.Of, d.Program))
		}
		for _, name := range d.Env {
			if !slices.Contains(a.Env, name) {
				errs = append(errs, fmt.Errorf("%s asks for the environment variable %s, and this worker does not hand it over\nhint: 'darkroom worker --env %s', where its server or program may have it", d.Of, name, name))
			}
		}
	}
	return errors.Join(errs...)
}

// rollsAlone leaves the settings that rolls need: conversations and pictures that are learned from are read by the
// trainer. Stages without rolls get the prompts of one that rolls.
func rollsAlone(e *experiment.Experiment) {
	rolled := e.Rollout.Prompts
	for _, at := range e.EachStage() {
		if !at.Rollout.Offline {
			rolled = at.Rollout.Prompts
			break
		}
	}
	alone := func(r *experiment.Rollout) {
		if r.Lessons = ""; r.Offline {
			r.Prompts, r.Shares, r.Offline = rolled, nil, false
		}
	}
	alone(&e.Rollout)
	for i := range e.Stages {
		alone(&e.Stages[i].Rollout)
	}
}

// Worker is another process that rolls for a run.
type Worker struct {
	Model  string // the model's folder; "": it has the same name as there
	Memory string // in place of run.memory; "": that, or the unused bytes
	Ranks  int    // workers that share the memory; 0: this one alone
	Home   string // in place of model.home; "": that
	Free   int64  // unused bytes
	Allowed
	Logf func(format string, args ...any)
}

// OpenWorker opens the model of a run that another process trains, unless o.Context ends first.
func OpenWorker(s fleet.Setup, at Worker, o model.Options) (model.Model, *experiment.Experiment, error) {
	var sets []string
	if at.Model != "" {
		sets = append(sets, fmt.Sprintf("model.path=%q", at.Model))
	}
	if at.Memory != "" {
		sets = append(sets, fmt.Sprintf("run.memory=%q", at.Memory))
	}
	if at.Home != "" {
		sets = append(sets, fmt.Sprintf("model.home=%q", at.Home))
	}
	e, err := experiment.Parse("the trainer's experiment", []byte(s.Config), sets)
	if err != nil {
		return nil, nil, err
	}
	if err := at.refuses(e.Demands()); err != nil {
		return nil, nil, err
	}
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, nil, err
	}
	var files []ModelFile
	if err := json.Unmarshal(s.Files, &files); err != nil {
		return nil, nil, fmt.Errorf("the run's setup: the model's files: %w", err)
	}
	has, err := modelFiles(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing the model with the trainer's: %w\nhint: --model names the model's folder on this machine", err)
	}
	if changed := changedFiles(dir, has, files); len(changed) > 0 {
		return nil, nil, fmt.Errorf("the model in %s is not the trainer's:\n  %s\nhint: copy the trainer's folder; --model says where it is", dir, strings.Join(changed, "\n  "))
	}
	e.Run.Lag = 0        // whose weights are sent
	e.Model.Teacher = "" // which is asked about samples, by the trainer
	rollsAlone(e)
	m := ModalityOf(e)
	if _, err := m.Ready(o.Context, e); err != nil {
		return nil, nil, err
	}
	if at.Memory != "" || at.Free > 0 || e.Run.Memory != "" {
		alone := *e // whatever devices the trainer has
		alone.Run.Device = e.Run.Devices()[0]
		if o.Fit, err = fitted(o.Context, m, computesOn(o.Backend, &alone), at.Free, int64(max(1, at.Ranks)), at.Logf); err != nil {
			return nil, nil, err
		}
	}
	o.Stock = nn.NewStock(o.Backend)
	all := slices.Concat(s.Train, s.HeldOut)
	prompts.Restore(all, s.Lists)
	o.Train, o.HeldOut = all[:len(s.Train):len(s.Train)], all[len(s.Train):]
	opened, err := m.Open(e, o)
	return opened, e, err
}

// OpenRewards opens the rewards that a worker asks for another process's run: those outside of the program, or, on a
// device, those that are networks, whose folders must be here under their names, with the trainer's files. A reward
// without a permission is refused, and where all are, nothing is opened.
func OpenRewards(s fleet.Setup, on kernels.Backend, allowed Allowed) (ask map[string]rewards.Judge, done func() error, err error) {
	e, err := experiment.Parse("the trainer's experiment", []byte(s.Config), nil)
	if err != nil {
		return nil, nil, err
	}
	bench := judges.Bench{Batch: atOnce}
	if on != nil {
		bench.Device = sync.OnceValues(func() (*features.Device, error) { return features.On(tensor.NewPool(on), features.F32), nil })
	}
	ask = map[string]rewards.Judge{}
	var closes []func() error
	var refused []error
	done = func() error {
		var errs []error
		for _, end := range closes {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	for _, r := range e.Rewards {
		had, network := s.Networks[r.Called()]
		if network != (on != nil) || !network && !r.Outside() {
			continue
		}
		if no := allowed.refuses(r.Demands()); no != nil {
			ask[r.Called()], refused = fleet.Refusal{Why: no}, append(refused, no)
			continue
		}
		var o judges.Opened
		if err = sameFiles(r, had); err == nil {
			o, err = judges.Open(r, bench)
		}
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		ask[r.Called()], closes = o, append(closes, o.Close)
	}
	if len(closes) == 0 && len(refused) > 0 {
		return nil, nil, errors.Join(refused...)
	}
	return ask, done, nil
}

// sameFiles refuses to compute a reward by other files than the trainer's.
func sameFiles(r experiment.Reward, had json.RawMessage) error {
	if had == nil || r.Path == "" {
		return nil
	}
	var files []ModelFile
	if err := json.Unmarshal(had, &files); err != nil {
		return fmt.Errorf("the run's setup: files of reward %s: %w", r.Called(), err)
	}
	has, err := rewardFiles(r.Path)
	if err != nil {
		return fmt.Errorf("comparing reward %s with the trainer's: %w\nhint: its folder is needed on this machine under the same name", r.Called(), err)
	}
	if changed := changedFiles(r.Path, has, files); len(changed) > 0 {
		return fmt.Errorf("the network of reward %s is not the trainer's:\n  %s\nhint: copy the trainer's folder", r.Called(), strings.Join(changed, "\n  "))
	}
	return nil
}
