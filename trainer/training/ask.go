package training

import (
	"context"
	"time"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// What the loop asks of rewards and estimators: Trainer.Score and Trainer.Compare.

// ask is Trainer.Score.
func (t *Training) ask(samples []trainer.Sample) ([]float64, error) {
	began := time.Now()
	defer func() { t.seconds["score"] += time.Since(began).Seconds() }()
	items, err := t.model.developed(samples)
	if err != nil {
		return nil, err
	}
	list := make([]prompts.Prompt, len(samples))
	for i := range samples {
		list[i] = t.train[samples[i].Key.Prompt]
		samples[i].Item.Image = items[i].Image
	}
	s, err := t.score(context.Background(), t.turn.Experiment, list, items, groups(samples))
	if err != nil {
		return nil, err
	}
	if t.album != nil {
		s.total = t.worth(samples)
	}
	t.shape(samples, s.total)
	first := t.scored == nil
	if t.scored = t.scored.with(s); !first {
		return s.total, nil
	}
	if t.few, err = t.tooFew(); err != nil {
		return nil, err
	}
	if t.loop.Iteration == t.turn.First {
		if err := t.checkPolicy(samples); err != nil {
			return nil, err
		}
	}
	return s.total, nil
}

// compare is Trainer.Compare.
func (t *Training) compare(samples []trainer.Sample, totals []float64) ([]float64, error) {
	b := advantage.Batch{Rewards: [][]float64{totals}}
	if h := t.estimator.How; h == "advantages" || h == "gdpo" {
		var err error
		if b.Rewards, b.Weights, err = t.turn.Combined(t.compared(totals)); err != nil {
			return nil, err
		}
	}
	if f := t.model.forest(); f != nil {
		return credit(t.turn, f, samples, b.Rewards, b.Weights)
	}
	for _, s := range samples {
		b.Groups = append(b.Groups, s.Key.Prompt)
		b.Prompts = append(b.Prompts, t.train[s.Key.Prompt].Text)
		b.Features = append(b.Features, s.Item.Final)
		b.Lengths = append(b.Lengths, float64(max(1, len(s.Decisions.Step))))
	}
	a, _, err := t.estimator.Advantages(b)
	if err != nil {
		return nil, err
	}
	return a, t.credit(samples, a, totals)
}

// A roller is a policy whose rolls are timed.
type roller struct {
	trainer.Policy
	t *Training
}

func (r roller) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	began := time.Now()
	defer func() { r.t.seconds["roll"] += time.Since(began).Seconds() }()
	return r.Policy.Roll(w, keys)
}
