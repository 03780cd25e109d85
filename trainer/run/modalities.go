package run

import (
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// modalities are the kinds of models, the first that an experiment asks for counts. A further one is a line.
func modalities() []kind {
	return []kind{
		{func(e *experiment.Experiment) bool { return e.Episode != nil }, conversations.Modality()},
		{func(e *experiment.Experiment) bool { return true }, pictures.Modality()},
	}
}

// kind is a modality, and whether an experiment is of it.
type kind struct {
	of func(e *experiment.Experiment) bool
	model.Modality
}

// modalityOf is an experiment's.
func modalityOf(e *experiment.Experiment) model.Modality {
	all := modalities()
	for _, k := range all[:len(all)-1] {
		if k.of(e) {
			return k.Modality
		}
	}
	return all[len(all)-1].Modality
}

// Need predicts the memory of a run, on an empty backend that counts.
func Need(e *experiment.Experiment, dry model.Dry) (*model.Need, error) {
	return modalityOf(e).Need(e, dry)
}
