package training

import (
	"reflect"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// A [[stage]] changes how the run goes on, and not what has been learned:
//
//	weights, reference          kept
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

// enter begins an iteration's stage, if it is another than the one under way.
func (t *Training) enter(turn experiment.Turn) {
	if turn.Number == t.stage.Number {
		return
	}
	before, history, memories := t.stage, t.estimator.History, t.loop.Memories
	t.begins(turn)
	if reflect.DeepEqual(before.Advantage, turn.Advantage) {
		t.estimator.History = history
	}
	for i, m := range memories {
		old := m.Pace
		if old.T = 0; old == t.loop.Memories[i].Pace {
			t.loop.Memories[i].Pace.T = m.Pace.T
		}
	}
	t.loop.Since = t.loop.Updates
}

// settle is in a stage with empty states, for a checkpoint to fill.
func (t *Training) settle(stage int) error {
	first := 0
	for n := range min(stage, len(t.Stages)) {
		first += t.Stages[n].Iterations
	}
	turn, err := t.Turn(first)
	if err == nil {
		t.begins(turn)
	}
	return err
}

// begins takes what the stage says, with empty states.
func (t *Training) begins(turn experiment.Turn) {
	t.stage, t.estimator = turn, turn.Advantage.OfPictures()
	if turn.Episode != nil {
		t.estimator = turn.Advantage.Rule()
	}
	all := make([]trainer.Memory, len(t.loop.Memories))
	for i, m := range t.loop.Memories {
		all[i] = trainer.Memory{Weights: m.Weights, Pace: paceOf(turn.Experiment, m.Weights), EachUpdate: m.Weights == trainer.Average}
	}
	t.loop.Memories, t.loop.Since = all, 0
	for _, m := range t.model.all() {
		_, mover, _ := m.own().State()
		mover.Set(turn.Optim)
	}
}

// average is which weights optim.ema makes: the old policy of nft follows at that pace, and is
// its average.
func average(e *experiment.Experiment) trainer.Weights {
	if e.Loss.Objective == "nft" {
		return trainer.Old
	}
	return trainer.Average
}

// paceOf is how a set of weights follows: at the pace of optim.ema, or at once.
func paceOf(e *experiment.Experiment, w trainer.Weights) optim.Pace {
	if e.Optim.EMA > 0 && w == average(e) {
		return e.Optim.Pace()
	}
	return optim.Pace{Shape: optim.Decay{Kind: "constant"}, Every: 1}
}

// everyStage is the experiment as each of its stages has it; itself where there are none.
func everyStage(e *experiment.Experiment) []*experiment.Experiment {
	if len(e.Stages) == 0 {
		return []*experiment.Experiment{e}
	}
	var all []*experiment.Experiment
	for i := range e.Stages {
		all = append(all, e.Stage(i))
	}
	return all
}

// needed are the sets of weights that any turn asks for beside the current ones.
func needed(e *experiment.Experiment) []trainer.Weights {
	asked := map[trainer.Weights]bool{}
	for _, at := range everyStage(e) {
		l := at.Loss
		compared := l.KL.Weight > 0 || l.Objective == "dpo" || l.Objective == "dgpo"
		if compared && l.KL.Reference == "base" {
			asked[trainer.Reference] = true
		}
		if l.Objective == "nft" || l.Objective == "awm" || compared && l.KL.Reference == "old" && at.Noised() {
			asked[trainer.Old] = true
		}
		if at.Optim.EMA > 0 {
			asked[average(at)] = true
		}
	}
	var all []trainer.Weights
	for _, w := range []trainer.Weights{trainer.Reference, trainer.Old, trainer.Average} {
		if asked[w] {
			all = append(all, w)
		}
	}
	return all
}
