package experiment

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Card: run.lag = k. The samples of iteration i are rolled by the weights of iteration i - k, whoever is quick, and by
// the first ones before that: workers roll ahead while the trainer trains, and the run is a function of its file and k.
// A sample keeps the log-probabilities that it was drawn with, so that ratios are true; other objectives would take
// old samples for new ones.

// checkLag: what cannot be learned from samples of earlier weights, or needs to know how the last iteration ended
// before the next one is rolled.
func (e *Experiment) checkLag(r report) {
	if e.Run.Lag == 0 || e.Taught() {
		return
	}
	o, roll := e.Kind(), e.Rollout
	const hint = "run.lag = 0"
	switch {
	case roll.Offline:
		r("rollout.offline", "nothing is rolled, so that nothing can be rolled ahead (run.lag)", hint)
	case !o.Has(loss.Ratio) || !o.Has(loss.Advantages):
		r("loss.objective", fmt.Sprintf("objective %q takes samples for those of the current weights, and run.lag = %d has them rolled by earlier ones: objectives with a ratio correct for that", e.Loss.Objective, e.Run.Lag), hint)
	case e.Sampler.Tree != nil && e.Episode == nil:
		r("sampler.tree", "what branches are worth is compared as the current weights would part, and run.lag has them rolled by earlier ones", hint)
	case e.Loss.KL.Weight > 0 && e.Loss.KL.Reference == "old":
		r("loss.kl.reference", "old weights are those of the iteration before, and run.lag has samples rolled by others", hint)
	case e.Comparison().GreedyAnswer:
		r("advantage.estimator", "the likeliest answers are those of the current weights, and run.lag has samples rolled by earlier ones", hint)
	case e.Episode != nil && e.Episode.Guided != nil && e.Episode.Guided.Every > 0:
		r("episode.guided.every", "how much of a solution is given depends on the scores of the iteration before, and run.lag has samples rolled ahead", "every = 0, or run.lag = 0")
	case roll.Resample != nil || roll.Curriculum != nil || roll.Skip != nil || roll.Ban != nil || roll.More != nil:
		r("rollout.resample|rollout.curriculum|rollout.skip|rollout.ban|rollout.more", "which prompts are rolled depends on what the iteration before made of them, and run.lag has them rolled ahead", hint)
	case roll.Buffer != nil:
		r("rollout.buffer", "samples are learned from again, and run.lag has all of them from earlier weights", hint)
	}
}
