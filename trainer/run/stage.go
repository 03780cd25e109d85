package run

import (
	"reflect"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A [[stage]] changes how the run goes on, and not what has been learned:
//
//	weights, reference          kept
//	rewards                     all are asked in every stage; which are trained on, and how they are
//	                            combined, is the stage's. Evaluations have the totals of the file
//	prompts                     those of a stage with other lists or shares are gone through from their
//	                            beginning; what is known of a prompt, as a curriculum's successes, is kept
//	trained parameters          those that the stage's train names move; the others stay, with their averages
//	averages of gradients       kept, with the number of updates in them; betas, eps and weight
//	                            decay are the stage's
//	learning rate's schedule    begins anew: warm-up and decay count the stage's own updates
//	history of the estimator    kept where all of [advantage] stays as it was; otherwise it is
//	                            empty again
//	moving averages of weights  kept; what their pace counts is kept where the pace is, otherwise
//	                            it begins anew. Without a pace of its own an average follows at
//	                            once, so that a stage that begins one begins with its weights
//
// Invariant (test): a run that stopped at a boundary, or beside one, goes on with the same bytes.

// enterStage begins an iteration's stage, if it is another than the one under way.
func (l *loop) enterStage(turn experiment.Turn) {
	if turn.Number == l.stage.Number {
		return
	}
	before, history, memories := l.stage, l.estimator.History, l.trainer.Memories
	if !before.Rollout.SamePrompts(turn.Rollout) {
		l.selection.place = 0
	}
	l.startStage(turn)
	if reflect.DeepEqual(before.Advantage, turn.Advantage) {
		l.estimator.History = history
	}
	for i, m := range memories {
		old := m.Pace
		if old.T = 0; old == l.trainer.Memories[i].Pace {
			l.trainer.Memories[i].Pace.T = m.Pace.T
		}
	}
	l.trainer.Since = l.trainer.Updates
}

// resetStage is in a stage with empty states, for a checkpoint to fill.
func (l *loop) resetStage(stage int) error {
	first := 0
	for n := range min(stage, len(l.Stages)) {
		first += l.Stages[n].Iterations
	}
	turn, err := l.Turn(first)
	if err == nil {
		l.startStage(turn)
	}
	return err
}

// startStage takes the stage's settings, with empty states.
func (l *loop) startStage(turn experiment.Turn) {
	l.stage, l.estimator = turn, turn.Estimator()
	all := make([]trainer.Memory, len(l.trainer.Memories))
	for i, m := range l.trainer.Memories {
		all[i] = trainer.Memory{Weights: m.Weights, Pace: model.Pace(turn.Experiment, m.Weights), EachUpdate: m.Weights == trainer.Average}
	}
	l.trainer.Memories, l.trainer.Since = all, 0
	l.model.Settle(turn.Optim, turn.Moves())
}
