package trainer

import (
	"fmt"
	"math"
)

// A Selection says which samples of a rollout are learned from. A nil field selects everything.
//
// Invariants (tests): a sample that was left out moves no weight, and has no advantage; a reused sample keeps the
// log-probability that it was rolled with, so that only its ratio differs from 1.
type Selection struct {
	// Further names more samples to roll in the same iteration, knowing those so far (DAPO's
	// dynamic sampling); none: there are enough.
	Further func(r *Report) []Key
	// Keep says which samples are compared at all. The others count as if they had no score.
	Keep func(samples []Sample, scores []float64) []bool
	// Some says that the estimator compares some samples of a group alone: the others have a score and no advantage.
	Some bool
	// Best are the places that are learned from, of those given, which were compared.
	Best func(r *Report, places []int) []int
	// Buffer has samples of earlier iterations.
	Buffer *Buffer
}

// gather rolls and scores, and again as long as further samples are asked for.
func (t *Trainer) gather() (*Report, error) {
	r := &Report{}
	for keys := t.Prompts(t.Iteration); ; {
		samples, err := t.Policy.Roll(t.Actor, keys)
		if err != nil {
			return nil, fmt.Errorf("rolling iteration %d: %w", t.Iteration+1, err)
		}
		scores, err := t.Score(samples)
		if err != nil {
			return nil, fmt.Errorf("scoring iteration %d: %w", t.Iteration+1, err)
		}
		if len(scores) != len(samples) {
			return nil, fmt.Errorf("iteration %d: %d samples have %d scores", t.Iteration+1, len(samples), len(scores))
		}
		r.Samples, r.Scores, r.Rolls = append(r.Samples, samples...), append(r.Scores, scores...), r.Rolls+1
		if t.Selection.Further == nil {
			return r, nil
		}
		if keys = t.Selection.Further(r); len(keys) == 0 {
			return r, nil
		}
	}
}

// compare fills in the report's advantages, and chooses the training data: samples, and their advantages.
func (t *Trainer) compare(r *Report) (learned []Sample, worth []float64, err error) {
	scores := t.kept(r)
	if r.Advantages, err = t.Compare(r.Samples, scores); err != nil {
		return nil, nil, fmt.Errorf("comparing the scores of iteration %d: %w", t.Iteration+1, err)
	}
	if r.Passed = t.pass(r); r.Passed != "" {
		return nil, nil, nil
	}
	places, err := t.scored(r, scores)
	if err != nil {
		return nil, nil, fmt.Errorf("iteration %d: %w", t.Iteration+1, err)
	}
	if t.Selection.Best != nil && len(places) > 0 {
		places = t.Selection.Best(r, places)
	}
	if len(places) == 0 {
		r.Passed = "no group is worth learning from"
	}
	r.Learned = places
	learned, worth = Pick(r.Samples, places), Pick(r.Advantages, places)
	if b := t.Selection.Buffer; b != nil {
		again, value := b.exchange(t.Iteration, learned, worth)
		learned, worth, r.Reused = append(learned, again...), append(worth, value...), len(again)
	}
	if len(learned) > 0 {
		r.Passed = ""
	}
	return learned, worth, nil
}

// kept are the scores, without those of samples that are not compared.
func (t *Trainer) kept(r *Report) []float64 {
	if t.Selection.Keep == nil {
		return r.Scores
	}
	scores := make([]float64, len(r.Scores))
	for i, keep := range t.Selection.Keep(r.Samples, r.Scores) {
		if scores[i] = r.Scores[i]; !keep {
			scores[i] = math.NaN()
		}
	}
	return scores
}

// scored are the places of the samples that have a score and were compared. An advantage may be missing only where
// the score is, or where the estimator compares some samples alone.
func (t *Trainer) scored(r *Report, scores []float64) (places []int, err error) {
	if len(scores) != len(r.Samples) || len(r.Advantages) != len(r.Samples) {
		return nil, fmt.Errorf("%d samples have %d scores and %d advantages", len(r.Samples), len(scores), len(r.Advantages))
	}
	missing := 0
	for i, s := range r.Samples {
		switch {
		case math.IsNaN(scores[i]):
		case math.IsNaN(r.Advantages[i]) && t.Selection.Some:
		case math.IsNaN(r.Advantages[i]):
			return nil, fmt.Errorf("sample %d of prompt %d has the score %v, but no advantage", s.Key.Sample, s.Key.Prompt, scores[i])
		default:
			places = append(places, i)
		}
		if math.IsNaN(r.Scores[i]) {
			missing++
		}
	}
	if missing == len(r.Samples) {
		return nil, fmt.Errorf("none of %d samples has a score", len(r.Samples))
	}
	return places, nil
}
