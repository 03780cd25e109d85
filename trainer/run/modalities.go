package run

import (
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// modalities are the kinds of models; the first that an experiment is of counts. A further one is a line.
func modalities() []kind {
	return []kind{
		{conversations.Modality(), func(e *experiment.Experiment) bool { return e.Episode != nil }},
		{pictures.Clips(), func(e *experiment.Experiment) bool { return slices.Contains(e.Makes(), "clips") }},
		{pictures.Modality(), func(*experiment.Experiment) bool { return true }},
	}
}

// kind is a modality, and whether an experiment is of it.
type kind struct {
	model.Modality
	of func(e *experiment.Experiment) bool
}

// ModalityOf is an experiment's.
func ModalityOf(e *experiment.Experiment) model.Modality {
	all := modalities()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.of(e) })].Modality
}

// Settings that this version cannot train yet are refused: no key is ignored in silence.

// Possible reports what of an experiment cannot be trained with yet.
func Possible(e *experiment.Experiment) error { return possible(ModalityOf(e), e) }

// possible is Possible of a modality.
func possible(m model.Modality, e *experiment.Experiment) error {
	first := 0
	for _, s := range e.Stages {
		if err := possibleTurn(m, e, first); err != nil {
			return err
		}
		first += s.Iterations
	}
	return possibleTurn(m, e, first)
}

// possibleTurn reports whether an iteration can be trained.
func possibleTurn(m model.Modality, e *experiment.Experiment, i int) error {
	turn, err := e.Turn(i)
	if err != nil {
		return err
	}
	return m.Possible(turn)
}

// ErrFew says that an iteration would have a prompt twice.
var ErrFew = errors.New("too few prompts")

// enough refuses lists that are shorter than an iteration: of a prompt that is there twice every sample
// would be, too.
func enough(e *experiment.Experiment, list []prompts.Prompt) error {
	for _, at := range e.Turns() {
		n, of := len(poolOf(at, list)), at.Rollout.Named()
		if at.Taught() {
			n, of = len(prompts.LessonsOf(list, at.Rollout.Lessons)), at.Rollout.Lessons
		}
		if per := at.Rollout.PromptsPerIteration; per > n {
			return fmt.Errorf("%w: %s has %d, and rollout.prompts_per_iteration is %d\nhint: write at most %d; a larger rollout.group makes more of each prompt", ErrFew, of, n, per, n)
		}
	}
	return nil
}
