package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// evaluation measures weights on held-out prompts, sampled from fixed noise by a deterministic solver: two measures
// differ by the weights alone. Samples are made, scored and dropped in portions of whole groups, so that its memory
// does not grow with the list; scores and the first pictures stay.
//
// Invariant (test): portions change no byte of the files.
type evaluation struct {
	e       *experiment.Experiment
	heldOut []prompts.Prompt
	behind  int // training's prompts, which are numbered first
	model   model.Model
	rewards *rewardSet
	record  *record
	clock   *clock
	say     say
	room    int64  // bytes of samples in memory at once
	under   [2]int // the held-out prompts of the portion under way: the first, and the end
	measures
}

// made is how many held-out samples are made and how many there are, from the passes of a portion.
func (v *evaluation) made(done, all int) (made, of int) {
	k := v.e.Evaluate.Samples
	return k*v.under[0] + k*(v.under[1]-v.under[0])*done/max(all, 1), k * len(v.heldOut)
}

// measures is the checkpoint's state of evaluations.
type measures struct {
	Before   map[string]ledger.Measure `json:"before,omitempty"` // of the start; nil: not measured yet
	Guided   map[string]ledger.Measure `json:"guided,omitempty"` // of the start under guidance
	Latest   map[string]ledger.Measure `json:"latest,omitempty"`
	Measured int                       `json:"measured,omitempty"` // the iteration of Latest
	// MeasuredWith is the settings of these measures, and Measuring the number of their changes.
	MeasuredWith map[string]string `json:"measured_with,omitempty"`
	Measuring    int               `json:"measuring,omitempty"`
}

// subject is the weights that are evaluated, and when.
type subject struct {
	weights            trainer.Weights
	iteration, attempt int
}

// Sizes of a sample in memory: a picture's pixels in bytes and its states in float64, for each pixel; and a
// conversation with its pictures.
const (
	pixelBytes        = 6
	conversationBytes = 1 << 20
	unknownSide       = 1024 // of pictures whose size the model's folder says
)

// heldBytes is about how much memory a held-out sample takes.
func heldBytes(settings experiment.Settings, p prompts.Prompt) int64 {
	if settings.Episode != nil {
		return conversationBytes
	}
	pixels := 0
	for _, s := range settings.PictureSizes() {
		pixels = max(pixels, s[0]*s[1])
	}
	if p.Sized() {
		pixels = p.Width * p.Height
	}
	return pixelBytes * int64(cmp.Or(pixels, unknownSide*unknownSide)) * int64(max(1, cmp.Or(p.Frames, settings.Frames())))
}

// portionOf is the number of held-out prompts that are evaluated at once: as many as fit into room, and as the model
// computes beside each other.
func portionOf(settings experiment.Settings, list []prompts.Prompt, samples, least int, room int64) int {
	n, bytes := 0, int64(0)
	for _, p := range list {
		if bytes += int64(samples) * heldBytes(settings, p); n > 0 && bytes > room && n*samples >= least {
			break
		}
		n++
	}
	return n
}

// evaluate samples and scores the held-out prompts; nil without any.
func (v *evaluation) evaluate(ctx context.Context, of trainer.Weights, sampler experiment.Sampler) (*samples, error) {
	if len(v.heldOut) == 0 {
		return nil, nil
	}
	settings, err := v.e.Evaluating(sampler)
	if err != nil {
		return nil, err
	}
	p := v.model.Fixed(ctx, settings, rng.New(uint64(v.e.Evaluate.Seed)).With("evaluation"))
	all := &samples{measures: map[string]ledger.Measure{}, missing: map[string]error{}, shown: shown{frames: framesOf(settings, v.heldOut, v.e.Evaluate.Samples)}}
	for first := 0; first < len(v.heldOut); {
		n := portionOf(settings, v.heldOut[first:], v.e.Evaluate.Samples, v.model.Portion(), v.room)
		if err := v.portion(ctx, p, of, all, first, first+n); err != nil {
			return nil, fmt.Errorf("evaluating: %w", err)
		}
		first += n
	}
	if err := all.scored.combine(v.e, all.prompts); err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	add := func(name string, x []float64) {
		if m := ledger.MeasureOf(slices.Collect(slices.Chunk(x, v.e.Evaluate.Samples))); m.Prompts > 0 { // a reward without any score has no mean
			all.measures[name] = m
		}
	}
	for _, r := range v.rewards.all {
		add(r.name, all.scored.numbers(r.name))
		_, all.missing[r.name] = missingOf(all.scored.results[r.name])
	}
	all.totals = all.scored.total
	add("total", all.totals)
	return all, nil
}

// portion samples and scores the held-out prompts from first to last.
func (v *evaluation) portion(ctx context.Context, p trainer.Policy, of trainer.Weights, all *samples, first, last int) error {
	var keys []trainer.Key
	var list []prompts.Prompt
	var groups [][]int
	for n := first; n < last; n++ {
		var g []int
		for k := range v.e.Evaluate.Samples {
			g = append(g, len(keys))
			keys, list = append(keys, trainer.Key{Prompt: v.behind + n, Sample: k}), append(list, v.heldOut[n])
		}
		groups = append(groups, g)
	}
	v.under = [2]int{first, last}
	rolled, err := p.Roll(of, keys)
	if err != nil {
		return err
	}
	items, err := v.model.Items(rolled)
	if err != nil {
		return err
	}
	sent := newRequests(ctx)
	defer sent.close()
	scored, err := v.rewards.results(v.e, sent, list, items, groups)
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := all.shown.add(item); err != nil {
			return err
		}
	}
	all.keys, all.prompts, all.scored = append(all.keys, keys...), append(all.prompts, list...), all.scored.with(scored)
	return nil
}

// optional reports whether an evaluation failed in a way that does not end the run.
func optional(err error) bool {
	var f failure
	return errors.As(err, &f) || errors.Is(err, errWaited) || errors.As(err, new(kernels.NotFinite))
}

// measure evaluates an iteration's weights, and keeps the pictures under a name. The start has no line.
func (v *evaluation) measure(ctx context.Context, of subject, line *ledger.Line, name string) error {
	began := time.Now()
	all, err := v.evaluate(ctx, of.weights, v.e.Sampler)
	if line != nil && optional(err) { // a failed measurement does not give up the learned weights
		v.say("warning: iteration %d was not evaluated: %v", line.Iteration, err)
		return nil
	}
	if err != nil || all == nil {
		v.Latest = map[string]ledger.Measure{}
		return err
	}
	v.Latest, v.Measured = all.measures, of.iteration
	for _, r := range v.rewards.all {
		if _, ok := all.measures[r.name]; !ok {
			v.say("warning: reward %s has no score of any held-out sample after iteration %d; the first: %v", r.name, of.iteration, all.missing[r.name])
		}
	}
	if line != nil {
		line.HeldOut = all.measures
	}
	sheet := "images/heldout_" + name + ".png"
	places, err := all.sheet(v.record.folder, sheet)
	if err == nil {
		err = v.undrawn(of, all.trails(ctx, v.record.folder, sheet, places))
	}
	if err == nil && line == nil {
		err = all.sourceSheet(v.record.folder, "images/heldout_sources.png")
	}
	v.clock.took("evaluate", began)
	if err := v.undrawn(of, err); err != nil {
		return err
	}
	return v.append(of, all, places)
}

// undrawn warns of a failed drawing; any other error is returned.
func (v *evaluation) undrawn(of subject, err error) error {
	if u := (undrawable{}); errors.As(err, &u) {
		v.say("warning: iteration %d: %s could not be drawn: %v", of.iteration, u.what, u.error)
		return nil
	}
	return err
}

// append writes a line for each sample, with the place of its picture on the sheet.
func (v *evaluation) append(of subject, all *samples, places [][4]int) error {
	at := of.iteration
	if of.weights == trainer.Reference { // the start's
		at = 0
	}
	for i, k := range all.keys {
		l := ledger.HeldOutLine{Iteration: at, Measuring: v.Measuring, Attempt: of.attempt, Prompt: k.Prompt - v.behind, Sample: k.Sample,
			Text: all.prompts[i].Text, Total: ledger.Number(all.totals[i]), Scores: all.scored.lines(i)}
		if i < len(places) {
			l.At = &places[i]
		}
		if i < min(len(places), len(all.shown.sizes)) && boxed(l.Scores) {
			l.Size = &all.shown.sizes[i]
		}
		if err := v.record.heldOut.Append(l); err != nil {
			return err
		}
	}
	return nil
}

// boxed reports whether a score's evidence has a box.
func boxed(scores map[string]ledger.ScoreLine) bool {
	for _, s := range scores {
		if slices.ContainsFunc(s.Evidence, func(e evidence.Reason) bool { return e.Box != nil }) {
			return true
		}
	}
	return false
}

// guide measures under guidance, which repairs a part of the defect that training is to repair.
func (v *evaluation) guide(ctx context.Context, of subject, name string) (map[string]ledger.Measure, error) {
	s := v.e.Sampler
	s.Guidance = v.e.Evaluate.Guided
	all, err := v.evaluate(ctx, of.weights, s)
	if err != nil || all == nil {
		return nil, err
	}
	_, err = all.sheet(v.record.folder, "images/guided_"+name+".png")
	return all.measures, v.undrawn(of, err)
}

// guidedEnd adds the measures under guidance to a result; the end of a run that is not to go on is measured now.
func (v *evaluation) guidedEnd(of subject, r *ledger.Result) error {
	var after map[string]ledger.Measure
	if r.Status != ledger.Interrupted {
		var err error
		after, err = v.guide(context.Background(), of, "after")
		if optional(err) { // a failed illustration does not end the run
			v.say("warning: the end was not measured under guidance: %v", err)
		} else if err != nil {
			return err
		}
	}
	r.Guidance, r.Guided = v.e.Evaluate.Guided, map[string]ledger.Gain{}
	for name, m := range v.Guided {
		g := ledger.Gain{Before: &m}
		if end, ok := after[name]; ok {
			g.After, g.Iteration = &end, of.iteration
		}
		r.Guided[name] = g
	}
	return nil
}

// measureStart measures the weights that training began with. Where that happens later, as a change of [evaluate]
// asks for, and these weights are not kept, there is no measure of the start.
func (v *evaluation) measureStart(ctx context.Context, of subject) error {
	v.Before = map[string]ledger.Measure{}
	if of.iteration > 0 && !v.startKept() {
		v.Latest, v.Measured = map[string]ledger.Measure{}, 0
		return nil
	}
	if err := v.measure(ctx, of, nil, "before"); err != nil {
		v.Before = nil
		return err
	}
	v.Before = v.Latest
	if v.e.Evaluate.Guided > 0 {
		var err error
		if v.Guided, err = v.guide(ctx, of, "before"); err != nil {
			return err
		}
	}
	if of.iteration > 0 {
		v.Latest, v.Measured = map[string]ledger.Measure{}, 0
	}
	return nil
}

// A run may go on with another [evaluate]. Earlier measurements are then of other samples, and a difference of the
// two is not a gain. So a checkpoint has the settings of its measures; where that has changed,
//
//	the start         is measured anew, by the model without its adapter, where that is how training began; otherwise
//	                  there is no measure of it, and no gain
//	the best          of the evaluations is forgotten, and so are the references of monitors of held-out numbers
//	sheets and lines  of earlier evaluations are kept: sheets under another name, lines with a lower "measuring"
//
// Another evaluate.weights leaves the start's measure, where all weights are one.

// settings are those of held-out samples and their scores that may change between two starts of a run.
func (v *evaluation) settings() (map[string]string, error) {
	all := map[string]string{}
	for _, kv := range v.e.Settings() {
		switch kv[0] {
		case "evaluate.every", "evaluate.prompts":
		default:
			if strings.HasPrefix(kv[0], "evaluate.") {
				all[kv[0]] = kv[1]
			}
		}
	}
	sum, err := sumOf(v.heldOut)
	all["evaluate.prompts"] = sum
	return all, err
}

// compareSettings drops the measures of a resumed run that later ones cannot be compared with. It reports whether the
// best evaluation is dropped, too. Older checkpoints hold no settings: the manifest's sum of held-out prompts counts.
func (v *evaluation) compareSettings(manifestSum string) (dropped bool, err error) {
	now, err := v.settings()
	was := v.MeasuredWith
	if v.MeasuredWith = now; err != nil {
		return false, err
	}
	if was == nil && manifestSum != "" {
		was = map[string]string{"evaluate.prompts": manifestSum}
	}
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		switch old := was[key]; {
		case old == now[key]:
		case key == "evaluate.prompts":
			changed = append(changed, "the held-out prompts are others")
		case key == "evaluate.guided":
			v.say("warning: evaluate.guided was %s, and is %s: the start was not measured with that guidance, and there is no gain under it", old, now[key])
			v.Guided = nil
		case key == "evaluate.weights":
			v.say("note: evaluate.weights was %s, and is %s: what is measured from now on is of other weights", old, now[key])
			dropped = true
		default:
			changed = append(changed, fmt.Sprintf("%s was %s, and is %s", key, old, now[key]))
		}
	}
	if len(changed) == 0 || len(v.Before) == 0 && v.Measured == 0 {
		return dropped, nil
	}
	what := "there is no measure of the start any more, and no gain: the weights that training began with are not kept"
	if v.startKept() {
		what = "the start is measured anew"
	}
	v.say("warning: %s: what was measured before cannot be compared with what will be; %s", strings.Join(changed, ", "), what)
	v.Measuring++
	v.Before, v.Guided, v.Latest, v.Measured = nil, nil, nil, 0
	return true, v.renameSheets()
}

// carry keeps measurements over a rollback to a checkpoint from before a change of settings. It reports whether the
// checkpoint's best evaluation is dropped.
func (v *evaluation) carry(from measures) (dropped bool) {
	v.MeasuredWith = from.MeasuredWith
	if v.Measuring == from.Measuring {
		return false
	}
	v.Measuring, v.Before, v.Guided = from.Measuring, from.Before, from.Guided
	v.Latest, v.Measured = map[string]ledger.Measure{}, 0
	return true
}

// startKept reports whether the model without its adapter is the start of training.
func (v *evaluation) startKept() bool {
	_, adapted := v.e.Model.Trained()
	return adapted && v.e.Model.Adapter == "" && !v.model.Keeps(trainer.Reference)
}

// renameSheets renames the sheets of earlier evaluations.
func (v *evaluation) renameSheets() error {
	for _, kind := range []string{"heldout", "guided"} {
		sheets, err := filepath.Glob(v.record.folder.Path("images/" + kind + "_*.png"))
		for _, s := range sheets {
			err = errors.Join(err, os.Rename(s, filepath.Join(filepath.Dir(s), fmt.Sprintf("earlier%d_%s", v.Measuring, filepath.Base(s)))))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("renaming sheets of earlier evaluations: %w", err)
		}
	}
	return nil
}
