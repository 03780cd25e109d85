package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// An Evaluation is held-out prompts, sampled from fixed noise by a deterministic solver: two of
// them differ by the weights alone. Samples are made, scored and let go of in portions of whole groups, so that its
// memory does not grow with the list; scores and the first pictures stay.
//
// Invariant (test): portions change no byte of what is written.
type Evaluation struct {
	Measures map[string]ledger.Measure // of every reward, and of "total"
	Missing  map[string]error          // why a reward's first missing score is missing
	Prompts  []prompts.Prompt          // of the samples
	Totals   []float64
	shown    shown // what a sheet has of the samples
	keys     []trainer.Key
	scored   *scores
}

// Sizes of a sample in memory: a picture's pixels in bytes and its states in float64, for each pixel; and a
// conversation with its pictures.
const (
	pixelBytes        = 6
	conversationBytes = 1 << 20
	unknownSide       = 1024 // of pictures whose size the model's folder says
)

// heldBytes is about how much memory a held-out sample takes.
func heldBytes(turn experiment.Turn, p prompts.Prompt) int64 {
	if turn.Episode != nil {
		return conversationBytes
	}
	pixels := 0
	for _, s := range turn.Asked() {
		pixels = max(pixels, s[0]*s[1])
	}
	if p.Sized() {
		pixels = p.Width * p.Height
	}
	return pixelBytes * int64(cmp.Or(pixels, unknownSide*unknownSide)) * int64(max(1, cmp.Or(p.Frames, turn.Frames())))
}

// portionOf is how many of some held-out prompts are evaluated at once: as many as fit into room, and as the model
// computes beside each other.
func portionOf(turn experiment.Turn, list []prompts.Prompt, samples, least int, room int64) int {
	n, bytes := 0, int64(0)
	for _, p := range list {
		if bytes += int64(samples) * heldBytes(turn, p); n > 0 && bytes > room && n*samples >= least {
			break
		}
		n++
	}
	return n
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
	return e.Measures, t.undrawn(err)
}

// guidedEnd adds to a result what was measured under guidance; the end of a run that is not to go on
// is measured now.
func (t *training) guidedEnd(r *ledger.Result) error {
	var after map[string]ledger.Measure
	if r.Status != ledger.Interrupted {
		var err error
		after, err = t.guide(context.Background(), "after")
		var f failure
		if errors.As(err, &f) || errors.Is(err, errWaited) || errors.As(err, new(kernels.NotFinite)) { // the run is not given up for what is shown beside
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
	if t.evaluated != nil {
		return *t.evaluated
	}
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
	e := &Evaluation{Measures: map[string]ledger.Measure{}, Missing: map[string]error{}, shown: shown{frames: framesOf(turn, t.heldOut, t.Evaluate.Samples)}}
	for first := 0; first < len(t.heldOut); {
		n := portionOf(turn, t.heldOut[first:], t.Evaluate.Samples, t.model.Portion(), t.heldAtOnce)
		if err := t.evaluateSome(ctx, p, e, first, first+n); err != nil {
			return nil, fmt.Errorf("evaluating: %w", err)
		}
		first += n
	}
	if err := e.scored.combine(t.Experiment, e.Prompts); err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	add := func(name string, x []float64) {
		if m := ledger.MeasureOf(slices.Collect(slices.Chunk(x, t.Evaluate.Samples))); m.Prompts > 0 { // what nobody answered has no mean
			e.Measures[name] = m
		}
	}
	for _, r := range t.rewards.all {
		add(r.name, e.scored.numbers(r.name))
		_, e.Missing[r.name] = missingOf(e.scored.results[r.name])
	}
	e.Totals = e.scored.total
	add("total", e.Totals)
	return e, nil
}

// evaluateSome samples and scores the held-out prompts from first to last.
func (t *training) evaluateSome(ctx context.Context, p trainer.Policy, e *Evaluation, first, last int) error {
	var keys []trainer.Key
	var list []prompts.Prompt
	var groups [][]int
	for n := first; n < last; n++ {
		var g []int
		for k := range t.Evaluate.Samples {
			g = append(g, len(keys))
			keys, list = append(keys, trainer.Key{Prompt: len(t.train) + n, Sample: k}), append(list, t.heldOut[n])
		}
		groups = append(groups, g)
	}
	samples, err := p.Roll(t.judged(), keys)
	if err != nil {
		return err
	}
	items, err := t.model.Items(samples)
	if err != nil {
		return err
	}
	a := newRequests(ctx)
	defer a.close()
	s, err := t.rewards.results(t.Experiment, a, list, items, groups)
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := e.shown.add(item); err != nil {
			return err
		}
	}
	e.keys, e.Prompts, e.scored = append(e.keys, keys...), append(e.Prompts, list...), e.scored.with(s)
	return nil
}

// measure evaluates, and keeps the pictures under a name.
func (t *training) measure(ctx context.Context, line *ledger.Line, name string) error {
	began := time.Now()
	e, err := t.evaluate(ctx, t.Sampler)
	var f failure
	if line != nil && (errors.As(err, &f) || errors.Is(err, errWaited) || errors.As(err, new(kernels.NotFinite))) { // what was learned is not given up for what is measured
		t.Say("warning: iteration %d was not evaluated: %v", line.Iteration, err)
		return nil
	}
	if err != nil || e == nil {
		t.state.Latest = map[string]ledger.Measure{}
		return err
	}
	t.state.Latest, t.state.Measured = e.Measures, t.loop.Iteration
	for _, r := range t.rewards.all {
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
	if err := t.undrawn(err); err != nil {
		return err
	}
	return t.recordHeldOut(e, places)
}

// recordHeldOut appends what was measured, a line a sample, and where on the sheet its picture is.
func (t *training) recordHeldOut(e *Evaluation, places [][4]int) error {
	at := t.loop.Iteration
	if t.evaluated != nil { // the start's
		at = 0
	}
	for i, k := range e.keys {
		l := ledger.HeldOutLine{Iteration: at, Measuring: t.state.Measuring, Attempt: t.state.Attempt, Prompt: k.Prompt - len(t.train), Sample: k.Sample,
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
