package preflight

import (
	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// A check is one experiment with what was read of its files.
type check struct {
	model.Folder
	modality model.Modality
	notes    []string
}

// Check reports all that is wrong with the files of an experiment, and notes on what only seems unwise. Layers to
// adapt that the file does not name become those that are usual for the model. dry is a backend that computes
// nothing.
func Check(e *experiment.Experiment, dry kernels.Backend) (notes []string, err error) {
	c := &check{Folder: model.Folder{Experiment: e, Pool: tensor.NewPool(dry), Prompts: map[string][]prompts.Prompt{}}, modality: run.ModalityOf(e)}
	defer kernels.Recover(&err)
	c.readPrompts()
	c.openModel()
	c.checkRewards()
	c.checkWeights()
	return c.notes, e.Mistakes()
}

// openModel opens the model's folder, as far as its headers.
func (c *check) openModel() {
	dir, err := assets.Resolve(c.Model.Path)
	if err != nil {
		c.Fail("model.path", err)
		return
	}
	c.Dir = dir
	c.modality.Inspect(&c.Folder)
}
