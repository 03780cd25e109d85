package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards by other processes: what is shared out, and what a worker opens of it.

// Helpers have workers: who roll, who ask rewards outside of the program, and who compute those that are networks. nil:
// nobody does.
type Helpers struct{ Rolls, Scores, Networks *fleet.Fleet }

// share has rewards of a kind asked by workers, where some are there.
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
				own = waiting{s.device, own}
			}
			return scores.Ask(ctx, r.name, items, own)
		})
	}
	return nil
}

// waiting is a reward that computes when the device is free.
type waiting struct {
	device *sync.Mutex
	own    rewards.Judge
}

func (w waiting) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
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

// OpenRewards opens the rewards that a worker asks for another process's run: those outside of the program, or, on a
// device, those that are networks, whose folders must be here under their names, with the trainer's files. A reward
// that demands what is not allowed here is refused, and where all are, nothing is opened.
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
