package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// The source of a stage's prompts: those of its lists that pass rates leave. The lists of all stages lie in one, so
// that a key names a prompt of any. A stage that goes on with the lists of the one before goes on in them; another
// begins with their first epoch.

// A pool is the prompts of one stage.
type pool struct {
	places []int // of the prompts, in all of training's
	key    rng.Key
	began  int          // the first iteration of the stages that draw from it
	mix    *prompts.Mix // nil without shares
}

// iteration are the n prompts of an iteration.
func (p *pool) iteration(i, n int) (list []int) {
	if p.mix != nil {
		return p.mix.Iteration(i - p.began)
	}
	for _, k := range prompts.Pick(p.key, i-p.began, n, len(p.places)) {
		list = append(list, p.places[k])
	}
	return list
}

// at is the prompt at a place of the endless list.
func (p *pool) at(place int) int {
	if p.mix != nil {
		return p.mix.At(place)
	}
	return p.places[prompts.From(p.key, place, 1, len(p.places))[0]]
}

// pool is that of an iteration's stage. After a rollback everything is drawn anew.
func (s *selection) pool(it iteration) *pool {
	settings, key := it.settings, it.root.With("prompts")
	if p := s.pools[settings.Number]; p != nil && p.key == key {
		return p
	}
	p := &pool{places: s.among(settings.Experiment), key: key, began: s.began(settings)}
	if r := settings.Rollout; len(r.Shares) > 1 {
		var shares []prompts.Share
		for i, name := range r.Prompts {
			of := slices.DeleteFunc(slices.Clone(p.places), func(n int) bool { return s.train[n].List != name })
			shares = append(shares, prompts.Share{Places: of, Share: r.Shares[i]})
		}
		p.mix = prompts.NewMix(key, r.PromptsPerIteration, shares)
	}
	if s.pools == nil {
		s.pools = map[int]*pool{}
	}
	s.pools[settings.Number] = p
	return p
}

// began is the first iteration of a stage, or of the first before it that has the same prompts, as all between
// them do.
func (s *selection) began(settings experiment.Settings) int {
	first := settings.First
	for n := settings.Number - 1; n >= 0 && s.e.Stages[n].Rollout.SamePrompts(settings.Rollout); n-- {
		first -= s.e.Stages[n].Iterations
	}
	return first
}

// among are the prompts of a stage that pass rates leave.
func (s *selection) among(at *experiment.Experiment) []int {
	own := poolOf(at, s.train)
	if s.e.Rollout.Filter == nil {
		return own
	}
	return slices.DeleteFunc(own, func(n int) bool { _, kept := slices.BinarySearch(s.passing, n); return !kept })
}

// left is how many prompts of the stage under way are not banned.
func (s *selection) left(it iteration) int {
	from := s.pool(it).places
	n := len(from)
	for _, p := range s.banned {
		if _, own := slices.BinarySearch(from, p); own {
			n--
		}
	}
	return n
}

// poolOf are the places of a stage's prompts. A list that knows of no lists is the stage's as a whole.
func poolOf(at *experiment.Experiment, list []prompts.Prompt) []int {
	if len(at.Lists()) > 1 || len(at.Rollout.Prompts) > 1 {
		return prompts.In(list, at.Rollout.Prompts)
	}
	return prompts.LessonsOf(list, "")
}

// countLists counts prompts by their lists, for the ledger; nil where there is one list.
func countLists(e *experiment.Experiment, list []prompts.Prompt, places []int) map[string]int {
	if len(e.Lists()) < 2 {
		return nil
	}
	all := map[string]int{}
	for _, n := range places {
		if name := list[n].List; name != "" {
			all[name]++
		}
	}
	return all
}

// Pass rates of prompts under the untrained model are measured once, and kept in the run's folder.

// passRatesFile has a line for each prompt, in the list's order.
const passRatesFile = "pass_rates.jsonl"

// filter leaves the prompts whose pass rates a file has within the bounds of [rollout.filter].
func (s *selection) filter(path string, say say) error {
	f := s.e.Rollout.Filter
	rates, err := passRates(path)
	if err != nil {
		return fmt.Errorf("rollout.filter: %w", err)
	}
	if s.passing, err = f.Keeps(s.train, rates); err != nil {
		return fmt.Errorf("rollout.filter: %s: %w", path, err)
	}
	say("%d of %d prompts have a pass rate above %v and at most %v", len(s.passing), len(s.train), f.Above, f.AtMost)
	s.pools = nil
	for _, at := range s.e.EachStage() {
		if n, most := len(s.among(at)), at.Rollout.PromptsPerIteration; n < most {
			return fmt.Errorf("rollout.filter leaves %d of %d prompts, and an iteration has %d\nhint: %s says how each did; another success, wider bounds, or fewer prompts_per_iteration",
				n, len(poolOf(at, s.train)), most, path)
		}
	}
	return nil
}

// passTest measures pass rates.
type passTest struct {
	prompts.PassRates
	e       *experiment.Experiment
	train   []prompts.Prompt
	model   model.Model
	rewards *rewardSet
	folder  *folder.Folder
	say     say
}

// measure rolls every prompt that the file does not have yet, an iteration's worth of samples at a time. Nothing is
// trained before.
func (m passTest) measure(ctx context.Context, root rng.Key) error {
	lines, err := m.folder.AllLines(passRatesFile)
	if err != nil {
		return err
	}
	defer lines.Close()
	have, err := passRates(m.folder.Path(passRatesFile))
	if err != nil || len(have) == len(m.train) {
		return err
	}
	settings, err := m.e.Iteration(0)
	if err != nil {
		return err
	}
	p := m.model.Fixed(ctx, settings, root.With("pass rates")) // not the draws of training
	m.say("measuring the pass rates of %d prompts, %d samples each", len(m.train), m.Samples)
	per := max(1, m.e.Rollout.PromptsPerIteration*m.e.Rollout.Group/m.Samples)
	for first := len(have); first < len(m.train); first += per {
		if ctx.Err() != nil {
			return nil
		}
		if err := m.portion(ctx, p, first, min(first+per, len(m.train)), lines); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("measuring pass rates: %w", err)
		}
	}
	_, err = lines.End()
	return err
}

// portion appends the lines of the prompts from first to last.
func (m passTest) portion(ctx context.Context, p trainer.Policy, first, last int, lines *folder.Lines) error {
	var keys []trainer.Key
	var list []prompts.Prompt
	for n := first; n < last; n++ {
		for k := range m.Samples {
			keys, list = append(keys, trainer.Key{Prompt: n, Sample: k}), append(list, m.train[n])
		}
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return err
	}
	items, err := m.model.Items(samples)
	if err != nil {
		return err
	}
	groups := trainer.Groups(samples)
	sent := newRequests(ctx)
	defer sent.close()
	scored, err := m.rewards.score(m.e, sent, list, items, groups)
	if err != nil {
		return err
	}
	for k, g := range groups {
		if err := lines.Append(m.Measured(m.train[first+k], trainer.Pick(scored.total, g))); err != nil {
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
