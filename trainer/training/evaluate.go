package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision"
)

// An Evaluation is held-out prompts, sampled from fixed noise by a deterministic solver: two of
// them differ by the weights alone.
type Evaluation struct {
	Measures map[string]Measure // of every reward, and of "total"
	Pictures []*vision.Image
	Prompts  []prompts.Prompt // of the pictures
	Totals   []float64
}

// guide measures under guidance, which repairs a part of what training is to repair.
func (t *Training) guide(ctx context.Context, name string) (map[string]Measure, error) {
	s := t.Sampler
	s.Guidance = t.Evaluate.Guided
	e, err := t.evaluate(ctx, s)
	if err != nil || e == nil {
		return nil, err
	}
	return e.Measures, t.grid("images/guided_"+name+".png", e)
}

// guidedEnd adds to a result what was measured under guidance; the end of a run that is not to go on
// is measured now.
func (t *Training) guidedEnd(r *Result) error {
	var after map[string]Measure
	if r.Status != Interrupted {
		var err error
		after, err = t.guide(context.Background(), "after")
		var f failure
		if errors.As(err, &f) || errors.Is(err, errWaited) { // the run is not given up for what is shown beside
			t.Say("warning: the end was not measured under guidance: %v", err)
		} else if err != nil {
			return err
		}
	}
	r.Guidance, r.Guided = t.Evaluate.Guided, map[string]Guided{}
	for name, m := range t.guided {
		g := Guided{Before: m}
		if end, ok := after[name]; ok {
			g.After = &end
		}
		r.Guided[name] = g
	}
	return nil
}

// evaluate measures the current weights; nil where nothing is held out.
func (t *Training) evaluate(ctx context.Context, sampler experiment.Sampler) (*Evaluation, error) {
	if len(t.heldOut) == 0 {
		return nil, nil
	}
	schedule, rows, err := t.Evaluation()
	if err != nil {
		return nil, err
	}
	p := t.model.fixed(ctx, rng.New(uint64(t.Evaluate.Seed)).With("evaluation"), rows, schedule, sampler)
	var keys []trainer.Key
	e := &Evaluation{Measures: map[string]Measure{}}
	var groups [][]int
	for n, prompt := range t.heldOut {
		var g []int
		for k := range t.Evaluate.Samples {
			g = append(g, len(keys))
			keys = append(keys, trainer.Key{Prompt: len(t.train) + n, Sample: k})
			e.Prompts = append(e.Prompts, prompt)
		}
		groups = append(groups, g)
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	items, err := t.model.developed(samples)
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	s, err := t.score(ctx, t.Experiment, e.Prompts, items, groups)
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	by := func(x []float64) (out [][]float64) {
		for _, g := range groups {
			var some []float64
			for _, i := range g {
				some = append(some, x[i])
			}
			out = append(out, some)
		}
		return out
	}
	add := func(name string, x []float64) {
		if m := measure(by(x)); m.Prompts > 0 { // what nobody answered has no mean
			e.Measures[name] = m
		}
	}
	for _, r := range t.judges {
		add(r.name, s.numbers(r.name))
	}
	e.Totals = s.total
	for i := range items {
		e.Pictures = append(e.Pictures, shown(samples[i], items[i]))
	}
	add("total", s.total)
	return e, nil
}

// measure evaluates, and keeps the pictures under a name.
func (t *Training) measure(ctx context.Context, line *Line, name string) error {
	began := time.Now()
	e, err := t.evaluate(ctx, t.Sampler)
	var f failure
	if line != nil && (errors.As(err, &f) || errors.Is(err, errWaited)) { // what was learned is not given up for what is measured
		t.Say("warning: iteration %d was not evaluated: %v", line.Iteration, err)
		return nil
	}
	if err != nil || e == nil {
		t.latest = map[string]Measure{}
		return err
	}
	t.latest, t.measured = e.Measures, t.loop.Iteration
	if line != nil {
		line.HeldOut = e.Measures
	}
	if t.seconds != nil {
		t.seconds["evaluate"] = time.Since(began).Seconds()
	}
	if t.model.talk != nil { // its pictures are those of the questions, before and after
		return nil
	}
	return t.grid("images/heldout_"+name+".png", e)
}
