package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Rolls and rewards by other processes (trainer/fleet), on the trainer's side: the setup that workers get before their
// first job, and the work that they share. worker.go is the other side.

// openFleet opens the model, whose rolls are shared out.
func (l *loop) openFleet(o model.Options) error {
	if len(l.Further) > 0 {
		return errors.New("a run with workers trains on one device, and this one has several\nhint: run.device names one; each further device can be a worker of its own")
	}
	s, err := l.setup()
	if err != nil {
		return err
	}
	by, err := l.Fleet()
	if err != nil {
		return err
	}
	l.fleet = by.Rolls
	for _, f := range []*fleet.Fleet{by.Rolls, by.Scores, by.Networks} {
		if f != nil {
			f.Log = l.logJob
		}
	}
	if err := errors.Join(l.rewards.share(by.Scores, s, false), l.rewards.share(by.Networks, s, true)); err != nil {
		return err
	}
	l.model, err = l.fleet.Open(s, l.Experiment, o, l.planned, func(o model.Options) (model.Model, error) { return l.modality.Open(l.Experiment, o) })
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

// planned is what an iteration to come will roll, as far as that does not depend on those before it.
func (l *loop) planned(i int) (p fleet.Planned, err error) {
	if p.Turn, err = l.Turn(i); err != nil || p.Turn.Taught() || p.Turn.Rollout.Offline {
		return p, err
	}
	l.selection.giveHints(&p.Turn) // as much as now: with run.lag it stays
	p.Root = l.root()
	p.Keys = l.selection.keys(iteration{i, p.Turn, p.Root, l.attempt.Attempt})
	return p, nil
}

// setup is what a worker opens.
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

// Fleets are workers that roll, that ask rewards outside of the program, and that compute rewards with networks; nil:
// there are none.
type Fleets struct{ Rolls, Scores, Networks *fleet.Fleet }

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
			return scores.Ask(ctx, r.name, items, own)
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
