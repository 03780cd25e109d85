package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// An Evaluation is held-out prompts, sampled from fixed noise by a deterministic solver: two of
// them differ by the weights alone.
type Evaluation struct {
	Measures map[string]ledger.Measure // of every reward, and of "total"
	Missing  map[string]error          // why a reward's first missing score is missing
	Pictures []*vision.Image           // nil where a sample is none
	Clips    []*video.Clip             // nil where a sample is none
	Sources  [][]*vision.Image         // that each is made of
	Prompts  []prompts.Prompt          // of the pictures
	Totals   []float64
	keys     []trainer.Key
	scored   *scores
}

// guide measures under guidance, which repairs a part of what training is to repair.
func (t *training) guide(ctx context.Context, name string) (map[string]ledger.Measure, error) {
	s := t.Sampler
	s.Guidance = t.Evaluate.Guided
	e, err := t.evaluate(ctx, s)
	if err != nil || e == nil {
		return nil, err
	}
	_, err = t.sheet("images/guided_"+name+".png", e)
	return e.Measures, err
}

// guidedEnd adds to a result what was measured under guidance; the end of a run that is not to go on
// is measured now.
func (t *training) guidedEnd(r *ledger.Result) error {
	var after map[string]ledger.Measure
	if r.Status != ledger.Interrupted {
		var err error
		after, err = t.guide(context.Background(), "after")
		var f failure
		if errors.As(err, &f) || errors.Is(err, errWaited) { // the run is not given up for what is shown beside
			t.Say("warning: the end was not measured under guidance: %v", err)
		} else if err != nil {
			return err
		}
	}
	r.Guidance, r.Guided = t.Evaluate.Guided, map[string]ledger.Gain{}
	for name, m := range t.state.Guided {
		g := ledger.Gain{Before: &m}
		if end, ok := after[name]; ok {
			g.After, g.Iteration = &end, t.loop.Iteration
		}
		r.Guided[name] = g
	}
	return nil
}

// judged are the weights that are evaluated.
func (t *training) judged() trainer.Weights {
	if at := t.stage.Experiment; at.Evaluate.Weights == "ema" && at.Optim.EMA > 0 {
		return model.Average(at)
	}
	return trainer.Current
}

// evaluate measures the weights that [evaluate] names; nil where nothing is held out.
func (t *training) evaluate(ctx context.Context, sampler experiment.Sampler) (*Evaluation, error) {
	if len(t.heldOut) == 0 {
		return nil, nil
	}
	turn, err := t.Evaluating(sampler)
	if err != nil {
		return nil, err
	}
	p := t.model.Fixed(ctx, turn, rng.New(uint64(t.Evaluate.Seed)).With("evaluation"))
	var keys []trainer.Key
	e := &Evaluation{Measures: map[string]ledger.Measure{}, Missing: map[string]error{}}
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
	samples, err := p.Roll(t.judged(), keys)
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	items, err := t.model.Items(samples)
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	a := newAsking(ctx)
	defer a.close()
	s, err := t.score(t.Experiment, a, e.Prompts, items, groups)
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
		if m := ledger.MeasureOf(by(x)); m.Prompts > 0 { // what nobody answered has no mean
			e.Measures[name] = m
		}
	}
	for _, r := range t.panel {
		add(r.name, s.numbers(r.name))
		_, e.Missing[r.name] = missingOf(s.results[r.name])
	}
	e.Totals, e.keys, e.scored = s.total, keys, s
	for i := range items {
		e.Pictures, e.Clips, e.Sources = append(e.Pictures, items[i].Image), append(e.Clips, items[i].Clip), append(e.Sources, items[i].Sources)
	}
	add("total", s.total)
	return e, nil
}

// measure evaluates, and keeps the pictures under a name.
func (t *training) measure(ctx context.Context, line *ledger.Line, name string) error {
	began := time.Now()
	e, err := t.evaluate(ctx, t.Sampler)
	var f failure
	if line != nil && (errors.As(err, &f) || errors.Is(err, errWaited)) { // what was learned is not given up for what is measured
		t.Say("warning: iteration %d was not evaluated: %v", line.Iteration, err)
		return nil
	}
	if err != nil || e == nil {
		t.state.Latest = map[string]ledger.Measure{}
		return err
	}
	t.state.Latest, t.state.Measured = e.Measures, t.loop.Iteration
	for _, r := range t.panel {
		if _, ok := e.Measures[r.name]; !ok {
			t.Say("warning: reward %s has no score of any held-out sample after iteration %d; the first: %v", r.name, t.loop.Iteration, e.Missing[r.name])
		}
	}
	if line != nil {
		line.HeldOut = e.Measures
	}
	t.took("evaluate", began)
	places, err := t.sheet("images/heldout_"+name+".png", e)
	if err == nil && line == nil {
		err = t.sourceSheet("images/heldout_sources.png", e)
	}
	if err != nil {
		return err
	}
	return t.recordHeldOut(e, places)
}

// recordHeldOut appends what was measured, a line a sample, and where on the sheet its picture is.
func (t *training) recordHeldOut(e *Evaluation, places [][4]int) error {
	for i, k := range e.keys {
		l := ledger.HeldOutLine{Iteration: t.loop.Iteration, Attempt: t.state.Attempt, Prompt: k.Prompt - len(t.train), Sample: k.Sample,
			Text: e.Prompts[i].Text, Total: ledger.Number(e.Totals[i]), Scores: e.scored.lines(i)}
		if i < len(places) {
			l.At = &places[i]
		}
		if err := t.files.heldOut.Append(l); err != nil {
			return err
		}
	}
	return nil
}
