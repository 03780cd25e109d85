package run

import (
	"context"
	"maps"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
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
		a = newAsking(context.Background())
	}
	defer a.close()
	a.waits = t.waiting
	failures := maps.Clone(t.state.Failures)
	totals, err := t.judgedBy(samples, a)
	if replaced(err) { // by samples that were rolled here
		again := newAsking(context.Background())
		defer again.close()
		t.now.scored, t.state.Failures = nil, failures
		totals, err = t.judgedBy(samples, again)
	}
	return totals, err
}

// judgedBy are samples' totals by what rewards say of them.
func (t *training) judgedBy(samples []trainer.Sample, a *asking) ([]float64, error) {
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
	if t.now.unscored, err = t.tooFew(); err != nil {
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
func (t *training) scoresOf(samples []trainer.Sample, a *asking) (*scores, []rewards.Item, error) {
	items := a.items
	if len(items) == 0 {
		var err error
		if items, err = t.model.Items(samples); err != nil {
			return nil, nil, err
		}
	}
	s, err := t.score(t.now.turn.Experiment, a, t.promptsOf(samples), items, trainer.Groups(samples))
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
	a := newAsking(context.Background())
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
