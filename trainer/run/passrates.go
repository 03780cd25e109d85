package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// Pass rates of prompts under the untrained model, measured once and kept in the run's folder.

// passRatesFile has a line a prompt, in the list's order.
const passRatesFile = "pass_rates.jsonl"

// filterPrompts leaves in the pool the prompts that pass rates leave. It is not done where ctx was cancelled.
func (t *training) filterPrompts(ctx context.Context) (done bool, err error) {
	f := t.Rollout.Filter
	if f == nil {
		return true, nil
	}
	path := f.Path
	if path == "" {
		path = t.files.folder.Path(passRatesFile)
		if err := t.measurePassRates(ctx, *f); err != nil || ctx.Err() != nil {
			return false, err
		}
	}
	rates, err := passRates(path)
	if err != nil {
		return false, fmt.Errorf("rollout.filter: %w", err)
	}
	if t.choice.pool, err = f.Keeps(t.train, rates); err != nil {
		return false, fmt.Errorf("rollout.filter: %s: %w", path, err)
	}
	t.Say("%d of %d prompts have a pass rate above %v and at most %v", len(t.choice.pool), len(t.train), f.Above, f.AtMost)
	t.choice.pools = nil
	for _, at := range t.Turns() {
		if n, most := len(t.among(at)), at.Rollout.PromptsPerIteration; n < most {
			return false, fmt.Errorf("rollout.filter leaves %d of %d prompts, and an iteration has %d\nhint: %s says how each did; another success, wider bounds, or fewer prompts_per_iteration",
				n, len(poolOf(at, t.train)), most, path)
		}
	}
	return true, nil
}

// measurePassRates rolls every prompt that the file does not have yet, an iteration's worth of
// samples at a time. Nothing was trained when it is begun.
func (t *training) measurePassRates(ctx context.Context, f prompts.PassRates) error {
	lines, err := t.files.folder.AllLines(passRatesFile)
	if err != nil {
		return err
	}
	defer lines.Close()
	have, err := passRates(t.files.folder.Path(passRatesFile))
	if err != nil || len(have) == len(t.train) {
		return err
	}
	turn, err := t.Turn(0)
	if err != nil {
		return err
	}
	p := t.model.Fixed(ctx, turn, t.root().With("pass rates")) // not the draws of training
	t.Say("measuring the pass rates of %d prompts, %d samples each", len(t.train), f.Samples)
	per := max(1, t.Rollout.PromptsPerIteration*t.Rollout.Group/f.Samples)
	for first := len(have); first < len(t.train); first += per {
		if ctx.Err() != nil {
			return nil
		}
		if err := t.passRatesOf(ctx, p, f, first, min(first+per, len(t.train)), lines); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("measuring pass rates: %w", err)
		}
	}
	_, err = lines.End()
	return err
}

// passRatesOf appends the lines of the prompts from first to last.
func (t *training) passRatesOf(ctx context.Context, p trainer.Policy, f prompts.PassRates, first, last int, lines *folder.Lines) error {
	var keys []trainer.Key
	var list []prompts.Prompt
	for n := first; n < last; n++ {
		for k := range f.Samples {
			keys, list = append(keys, trainer.Key{Prompt: n, Sample: k}), append(list, t.train[n])
		}
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return err
	}
	items, err := t.model.Items(samples)
	if err != nil {
		return err
	}
	all := trainer.Groups(samples)
	a := newRequests(ctx)
	defer a.close()
	s, err := t.rewards.score(t.Experiment, a, list, items, all)
	if err != nil {
		return err
	}
	for k, g := range all {
		if err := lines.Append(f.Measured(t.train[first+k], trainer.Pick(s.total, g))); err != nil {
			return err
		}
	}
	return nil
}

// passRates are the whole lines of a file; none where there is no file.
func passRates(path string) ([]prompts.PassRate, error) {
	var all []prompts.PassRate
	err := folder.ReadLines(path, func(text []byte) error {
		var r prompts.PassRate
		err := json.Unmarshal(text, &r)
		all = append(all, r)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s\nhint: without path, pass rates are measured", path)
	}
	return all, err
}
