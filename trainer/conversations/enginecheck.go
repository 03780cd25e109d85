package conversations

import (
	"context"
	"errors"
	"image/color"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/engine"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// The check of an engine (engine.go): the words of a question behind its first picture are scored there and here, and a
// few tokens are drawn there and scored here. Four sequences of numbers are compared by the root mean square of their
// differences:
//
//	here      by the weights as they are, with the pictures: the engine must lie within the tolerance
//	blind     the same with grey pictures: an engine that lies nearer to this does not see them
//	before    by the weights that were loaded before: an engine that lies nearer to this has not taken the new ones,
//	          and one that says what it said before, to the bit, has not either
//	untold    of the tokens that it drew, at temperature 1: log-probabilities before the temperature
//
// Prompts' log-probabilities are at temperature 1 in both engines.

// A probe is a question, and the scores of its words at one version of the weights.
type probe struct {
	v            *episodeSampler
	at           []int     // places of words that the engine scored
	ours, theirs []float64 // of all the question's tokens
}

// drawnInCheck is how many tokens an engine draws to be checked.
const drawnInCheck = 16

// felt is how far log-probabilities must move before it counts that an engine's did not.
const felt = 1e-3

// checkFar holds the engine to our own network.
func (p *Policy) checkFar(ctx context.Context, k trainer.Key) error {
	f := p.Far
	v := (*episodeSampler)(nil)
	if f.probe != nil {
		v = f.probe.v
	} else {
		var err error
		if v, err = p.question(k); err != nil {
			return err
		}
	}
	q, err := f.question(v, v.prompt.Engine)
	if err != nil {
		return err
	}
	q.Score, q.Most = true, drawnInCheck
	a, err := f.Ask(ctx, q)
	if err != nil {
		return err
	}
	if f.probe == nil {
		f.base = a.Version
	}
	all := slices.Concat(q.IDs, a.IDs)
	seen := images(v.album.Pictures)
	here, err := p.Speaker.Scores(all, seen, 1)
	if err != nil {
		return err
	}
	blind, err := p.Speaker.Scores(all, Grey(seen), 1)
	if err != nil {
		return err
	}
	told, err := p.Speaker.Scores(all, seen, p.Sampling.Temperature)
	if err != nil {
		return err
	}
	at := q.Scored(a)
	if len(at) < 2 {
		return engine.Refuse(engine.NoLogProbs, "the engine at %s scores %d words of the question", f.At, len(at))
	}
	now := &probe{v: v, at: at, ours: here, theirs: a.Scores}
	n := len(q.IDs)
	if err := f.compare(now, blind, len(q.Pictures) > 0); err != nil {
		return err
	}
	if d := apart(a.LogProbs, told[n:]); d > f.Tolerance {
		if apart(a.LogProbs, here[n:]) < d/2 {
			return engine.Refuse(engine.OtherNumbers, "of tokens drawn at temperature %v the engine at %s says how likely they are at temperature 1: start vLLM with --logprobs-mode processed_logprobs", p.Sampling.Temperature, f.At)
		}
		return engine.Refuse(engine.OtherNumbers, "tokens that the engine at %s drew have log-probabilities that lie %.3g from ours (episode.engine.tolerance is %v)", f.At, d, f.Tolerance)
	}
	f.probe = now
	return nil
}

// compare finds what an engine's scores are nearest to.
func (f *Engine) compare(now *probe, blind []float64, pictures bool) error {
	f.Gap = now.apart(now.theirs, now.ours)
	nearer := func(other []float64) bool {
		return now.apart(now.ours, other) > felt && now.apart(now.theirs, other) < f.Gap/2
	}
	if before := f.probe; before != nil {
		moved := now.apart(now.ours, before.ours)
		if nearer(before.ours) || moved > felt && slices.Equal(now.at, before.at) && now.apart(now.theirs, before.theirs) == 0 {
			return engine.Refuse(engine.Stale, "the engine at %s was given the adapter %s, and scores the question's words as by the one before it, from which ours moved by %.3g", f.At, f.name, moved)
		}
	}
	if pictures && nearer(blind) {
		return engine.Refuse(engine.LostPictures, "what the engine at %s says of the words behind a picture lies %.3g from ours, and nearer to what we say behind a grey one", f.At, f.Gap)
	}
	if !(f.Gap <= f.Tolerance) {
		return engine.Refuse(engine.OtherNumbers, "what the engine at %s says of a question's words lies %.3g from ours, and episode.engine.tolerance is %v: it has other weights, another precision, or sees other pictures", f.At, f.Gap, f.Tolerance)
	}
	return nil
}

// images are pictures without what an episode knows of them.
func images(pictures []tools.Picture) (all []*vision.Image) {
	for _, p := range pictures {
		all = append(all, p.Image)
	}
	return all
}

// Grey are pictures of the same sizes without anything on them.
func Grey(pictures []*vision.Image) (all []*vision.Image) {
	for _, m := range pictures {
		all = append(all, vision.NewFilled(m.Width, m.Height, color.RGBA{R: 128, G: 128, B: 128}))
	}
	return all
}

// apart is apart of the words that the engine scored.
func (p *probe) apart(a, b []float64) float64 {
	var x, y []float64
	for _, i := range p.at {
		x, y = append(x, a[i]), append(y, b[i])
	}
	return apart(x, y)
}

// apart is the root mean square of differences.
func apart(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		d := a[i] - b[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(max(1, len(a))))
}

// stopped reports whether an error only says that something else ended the work.
func stopped(err error) bool { return errors.Is(err, context.Canceled) }
