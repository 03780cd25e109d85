package run

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// What a stage draws its prompts from: those of its lists that pass rates leave. The lists of all stages lie in one,
// so that a key names a prompt of any. A stage that goes on with the lists of the one before goes on in them; another
// begins with their first epoch.

// A pool is what one stage draws from.
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

// pool is a turn's. After a rollback everything is drawn anew.
func (t *training) pool(turn experiment.Turn) *pool {
	key := t.root().With("prompts")
	if p := t.choice.pools[turn.Number]; p != nil && p.key == key {
		return p
	}
	p := &pool{places: t.among(turn.Experiment), key: key, began: t.began(turn)}
	if r := turn.Rollout; len(r.Shares) > 1 {
		var shares []prompts.Share
		for i, name := range r.Prompts {
			of := slices.DeleteFunc(slices.Clone(p.places), func(n int) bool { return t.train[n].List != name })
			shares = append(shares, prompts.Share{Places: of, Share: r.Shares[i]})
		}
		p.mix = prompts.NewMix(key, r.PromptsPerIteration, shares)
	}
	if t.choice.pools == nil {
		t.choice.pools = map[int]*pool{}
	}
	t.choice.pools[turn.Number] = p
	return p
}

// began is the first iteration of a turn's stage, or of the first before it that has the same prompts, as all between
// them do.
func (t *training) began(turn experiment.Turn) int {
	first := turn.First
	for n := turn.Number - 1; n >= 0 && t.Stages[n].Rollout.SamePrompts(turn.Rollout); n-- {
		first -= t.Stages[n].Iterations
	}
	return first
}

// among are the prompts of a stage that pass rates leave.
func (t *training) among(at *experiment.Experiment) []int {
	own := poolOf(at, t.train)
	if t.Rollout.Filter == nil {
		return own
	}
	return slices.DeleteFunc(own, func(n int) bool { _, kept := slices.BinarySearch(t.choice.pool, n); return !kept })
}

// left is how many prompts of the stage under way are not banned.
func (t *training) left() int {
	from := t.pool(t.now.turn).places
	n := len(from)
	for _, p := range t.choice.banned {
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

// listed are how many of some prompts stand in each list, for the ledger; nil where there is one list.
func (t *training) listed(places []int) map[string]int {
	if len(t.Lists()) < 2 {
		return nil
	}
	all := map[string]int{}
	for _, n := range places {
		if name := t.train[n].List; name != "" {
			all[name]++
		}
	}
	return all
}
