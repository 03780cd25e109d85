package run

import (
	"slices"

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

// Memory predicts what a run takes, on an empty backend that counts, and how it keeps to a budget.
func Memory(e *experiment.Experiment, dry model.Dry, budget int64) (*model.Memory, error) {
	return ModalityOf(e).Memory(e, dry, budget)
}
