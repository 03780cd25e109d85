package conversations

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: answers that somebody wrote, learned from in the updates of rollouts (trainer.Imitating, CHORD). They are
// conversations of rollout.lessons, as the objective sft reads them; each is read once in an epoch, by iterations of
// the run, and the share follows those of the stage. Every update of an iteration sees the same. An iteration whose
// samples teach nothing learns from them alone.

// imitating joins an objective with written answers, where the turn asks for them.
func (m *Model) imitating(turn experiment.Turn, own trainer.Objective) trainer.Objective {
	o := turn.Loss.Imitate
	if !o.On() {
		return own
	}
	return trainer.Imitating{
		Own:     own,
		Written: trainer.Teaching{Aggregate: turn.Loss.Aggregate, Undecided: o.Tokens == "undecided"},
		Share:   o.Share(turn.Iteration),
		Lessons: func() ([]trainer.Sample, error) { return m.written(turn) },
	}
}

// written are the conversations of an iteration.
func (m *Model) written(turn experiment.Turn) (samples []trainer.Sample, err error) {
	all := prompts.LessonsOf(m.train, turn.Rollout.Lessons)
	iteration := turn.First + turn.Iteration
	for i, n := range prompts.Pick(m.Draws.Root.With("imitated"), iteration, turn.Loss.Imitate.Rows, len(all)) {
		k := trainer.Key{Iteration: iteration, Prompt: all[n], Sample: i}
		s, err := m.told(k)
		if err != nil {
			return nil, fmt.Errorf("%s, %q: %w", turn.Rollout.Lessons, m.train[k.Prompt].Text, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}
