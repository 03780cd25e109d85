package training

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// What an experiment may ask for and this version cannot do yet is refused: nothing that is
// written is passed over in silence.

// possible reports whether an iteration can be trained.
func (t *Training) possible(i int) error {
	turn, err := t.Turn(i)
	if err != nil {
		return err
	}
	var missing []string
	for what, asked := range notYet(turn.Experiment) {
		if asked {
			missing = append(missing, what)
		}
	}
	if turn.Rollout.Prompts != t.Rollout.Prompts {
		missing = append(missing, "rollout.prompts of a [[stage]]: all stages have the same")
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("this cannot be trained with yet:\n  %s\nhint: leave it out, or use what 'darkroom plan' shows without it", strings.Join(missing, "\n  "))
	}
	_, err = t.objective(turn)
	return err
}

// notYetEstimated need what no rollout has yet: sums over whole vocabularies.
var notYetEstimated = []string{"optimal-token-baseline", "optimal-token-baseline-turns"}

// notYet is what cannot be done, and whether it is asked for.
func notYet(e *experiment.Experiment) map[string]bool {
	a := e.Advantage
	return map[string]bool{
		"advantage.estimator = " + a.Estimator: slices.Contains(notYetEstimated, a.Estimator),
	}
}
