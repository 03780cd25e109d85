package run

import (
	"context"
	"maps"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision"
)

// What the loop asks of rewards and estimators: Trainer.Score and Trainer.Compare.

// judge is Trainer.Score.
func (t *training) judge(samples []trainer.Sample) ([]float64, error) {
	defer t.part("score")()
	if t.now.turn.Taught() {
		return t.unjudged(samples), nil
	}
	a := t.now.asking
	if t.now.asking = nil; a == nil {
		a = newRequests(context.Background())
	}
	defer a.close()
	a.waits = t.waiting
	failures := maps.Clone(t.rewards.failures)
	totals, err := t.judgedBy(samples, a)
	if replaced(err) { // by samples that were rolled here
		again := newRequests(context.Background())
		defer again.close()
		t.now.scored, t.rewards.failures = nil, failures
		totals, err = t.judgedBy(samples, again)
	}
	return totals, err
}

// judgedBy are samples' totals by what rewards say of them.
func (t *training) judgedBy(samples []trainer.Sample, a *requests) ([]float64, error) {
	s, items, err := t.scoresOf(samples, a)
	if err != nil {
		return nil, err
	}
	for i := range samples {
		samples[i].Item.Image, samples[i].Item.Clip, samples[i].Item.Sources = items[i].Image, items[i].Clip, items[i].Sources
	}
	first := t.now.scored == nil
	if t.now.scored = t.now.scored.with(s); !first {
		return s.total, nil
	}
	if t.now.unscored, err = t.rewards.tooFew(t.now.turn.Experiment, t.now.scored, t.loop.Iteration+1); err != nil {
		return nil, err
	}
	if err := t.askTwice(samples, s); err != nil {
		return nil, err
	}
	if t.loop.Iteration == t.now.turn.First && (t.Run.Lag == 0 || t.loop.Iteration == 0) { // by the weights that rolled
		if err := t.checkPolicy(samples); err != nil {
			return nil, err
		}
	}
	return s.total, nil
}

// scoresOf are what the iteration's rewards say of training samples, with the items that they judged. Some were
// asked about before.
func (t *training) scoresOf(samples []trainer.Sample, a *requests) (*scores, []rewards.Item, error) {
	items := a.items
	if len(items) == 0 {
		var err error
		if items, err = t.model.Items(samples); err != nil {
			return nil, nil, err
		}
	}
	s, err := t.rewards.score(t.now.turn.Experiment, a, t.promptsOf(samples), items, trainer.Groups(samples))
	if err != nil {
		return nil, nil, err
	}
	t.model.Shape(samples, s.total)
	if e := t.now.turn.Experiment; e.Episode != nil && e.Episode.Shuffled != nil {
		t.now.controls.reward(*e.Episode.Shuffled, samples, s.numbers(e.ComparedBy()), s.total)
	}
	return s, items, nil
}

// promptsOf are those of training samples.
func (t *training) promptsOf(samples []trainer.Sample) []prompts.Prompt {
	list := make([]prompts.Prompt, len(samples))
	for i := range samples {
		list[i] = t.train[samples[i].Key.Prompt]
	}
	return list
}

// Totals is model.Rewards'.
func (t *training) Totals(samples []trainer.Sample) ([]float64, error) {
	a := newRequests(context.Background())
	defer a.close()
	s, _, err := t.scoresOf(samples, a)
	if err != nil {
		return nil, err
	}
	return s.total, nil
}

// compare is Trainer.Compare.
func (t *training) compare(samples []trainer.Sample, totals []float64) ([]float64, error) {
	if t.now.turn.Taught() {
		return slices.Repeat([]float64{1}, len(samples)), nil
	}
	b := advantage.Batch{Rewards: [][]float64{totals}}
	if t.now.turn.Advantage.EachReward() {
		var err error
		if b.Rewards, b.Weights, err = t.now.turn.Combined(t.compared(totals)); err != nil {
			return nil, err
		}
	}
	for _, s := range samples {
		b.Groups = append(b.Groups, s.Key.Prompt)
		b.Prompts = append(b.Prompts, t.train[s.Key.Prompt].Text)
		b.Features = append(b.Features, s.Item.Final)
		b.Lengths = append(b.Lengths, float64(max(1, len(s.Decisions.Step))))
	}
	return t.model.Credit(samples, totals, b, t.estimator)
}

// compared are the scores of each reward, without those of samples that are not compared.
func (t *training) compared(totals []float64) [][]float64 {
	all := make([][]float64, len(t.now.scored.trained))
	for k := range all {
		all[k] = slices.Clone(t.now.scored.trained[k])
		for i, v := range totals {
			if v != v && t.now.scored.total[i] == t.now.scored.total[i] { // it has a total, and was left out
				all[k][i] = v
			}
		}
	}
	return all
}

// timed is a policy whose rolls are timed.
type timed struct {
	trainer.Policy
	t *training
}

func (p timed) roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	return p.timing(func() ([]trainer.Sample, error) { return p.Policy.Roll(w, keys) })
}

func (p timed) timing(roll func() ([]trainer.Sample, error)) ([]trainer.Sample, error) {
	defer p.t.part("roll")()
	p.t.device.Lock() // so that a reward with a network, which workers left to this process, waits
	defer p.t.device.Unlock()
	return roll()
}

// waiting says that a reward has no answer yet, and what workers said meanwhile.
func (t *training) waiting(reward string) {
	t.Say("iteration %d: waiting for reward %s", t.loop.Iteration+1, reward)
	if t.fleet != nil {
		t.fleet.Speak()
	}
}

// Roll rolls an iteration's samples. Where a reward outside is to be asked, it is asked about each group as the model
// tells of it; a model that tells of none rolls some groups after another.
func (p timed) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	t := p.t
	t.now.asking.close()
	t.now.asking = nil
	if t.now.turn.Taught() || !t.rewards.outside() {
		return p.roll(w, keys)
	}
	a := newRequests(context.Background())
	t.now.asking, a.items = a, make([]rewards.Item, len(keys))
	if m, ok := p.Policy.(model.Telling); ok {
		t.now.rolled = rolled{}
		return p.timing(func() ([]trainer.Sample, error) {
			return m.RollEach(w, keys, func(first int, samples []trainer.Sample) error { return t.askAbout(a, first, samples) })
		})
	}
	var all []trainer.Sample
	for rest := keys; len(rest) > 0; rest = keys[len(all):] {
		t.now.rolled.next(len(all), wholeGroups(rest, t.model.Portion()), len(keys))
		samples, err := p.roll(w, rest[:wholeGroups(rest, t.model.Portion())])
		if err != nil {
			return nil, err
		}
		if err := t.ask(a, len(all), samples); err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// rolled is how far a roll in portions is.
type rolled struct {
	before, last  int // passes of the network in finished portions, and in all up to now
	upto, samples int // samples up to the end of this portion, and all; 0: there are no portions
}

// next begins a portion of n samples, behind some, of all.
func (r *rolled) next(behind, n, all int) {
	if behind == 0 {
		*r = rolled{}
	}
	r.before, r.upto, r.samples = r.last, behind+n, all
}

// of is the progress of the whole roll where a portion has done some of its passes. How many the portions to
// come will take is an estimate.
func (r *rolled) of(done, all int) (int, int) {
	if r.upto == 0 {
		return done, all
	}
	r.last = r.before + done
	return r.last, (r.before + all) * r.samples / r.upto
}

// ask develops samples that were just rolled, which follow n others, and asks rewards outside about them.
func (t *training) ask(a *requests, n int, samples []trainer.Sample) error {
	defer t.part("score")()
	t.device.Lock() // rewards with networks, which workers left to this process, wait
	defer t.device.Unlock()
	return t.askAbout(a, n, samples)
}

// askAbout is ask, by who has the device. Where other samples were in these places, answers about them are of no use.
func (t *training) askAbout(a *requests, n int, samples []trainer.Sample) error {
	items, err := t.model.Items(samples)
	if err != nil {
		return err
	}
	copy(a.items[n:], items)
	a.forget(n, n+len(items))
	list := t.promptsOf(samples)
	groups := withoutLost(items, trainer.Groups(samples))
	for k := range t.rewards.all {
		r := &t.rewards.all[k]
		asked := r.weighted(list, groups)
		for i := range asked {
			asked[i] = slices.Clone(asked[i])
			for k := range asked[i] {
				asked[i][k] += n
			}
		}
		a.send(r, func(i int) rewards.Item { return ofPrompt(a.items[i], list[i-n]) }, asked)
	}
	return nil
}

// wholeGroups is how many of the first keys are whole groups with so many samples at least.
func wholeGroups(keys []trainer.Key, least int) int {
	for i := max(1, least); i < len(keys); i++ {
		if keys[i].Prompt != keys[i-1].Prompt {
			return i
		}
	}
	return len(keys)
}

// Slopes is model.Rewards': the trained rewards' sums over pictures and their gradients.
func (t *training) Slopes(ways []trainer.Way, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	return t.rewards.gradients(t.now.turn.Experiment, t.train, ways, pictures)
}
