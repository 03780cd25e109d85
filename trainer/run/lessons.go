package run

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// A stage that learns from conversations of a file rolls nothing and asks no reward: its samples are
// lessons, which stand behind the prompts. Held-out prompts are measured as always.

// lessons are n of the stage's file, every one once in an epoch.
func (t *training) lessons(i, n int) (list []int) {
	all := prompts.LessonsOf(t.train, t.now.turn.Rollout.Lessons)
	for _, k := range prompts.Pick(t.root().With("lessons"), i, n, len(all)) {
		list = append(list, all[k])
	}
	return list
}

// unjudged are the totals of lessons: nobody was asked.
func (t *training) unjudged(samples []trainer.Sample) []float64 {
	s := &scores{results: map[string][]rewards.Result{}, total: make([]float64, len(samples))}
	if t.now.scored == nil {
		t.now.scored = s
	}
	return s.total
}

// totals are what the ledger says of an iteration's scores: of lessons, that there are none;
// controls have none of theirs.
func (t *training) totals(samples []trainer.Sample, scores []float64) (all []float64) {
	if t.now.turn.Taught() {
		return slices.Repeat([]float64{math.NaN()}, len(scores))
	}
	for i, s := range samples {
		if !s.Control {
			all = append(all, scores[i])
		}
	}
	return all
}
