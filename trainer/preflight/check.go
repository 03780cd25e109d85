package preflight

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// A check is one experiment with what was read of its files.
type check struct {
	*experiment.Experiment
	pool  *tensor.Pool // that computes nothing
	lists map[string][]prompts.Prompt
	notes []string
}

// Check reports all that is wrong with the files of an experiment, and notes on what only seems unwise. Layers to
// adapt that the file does not name become those that are usual for the model. dry is a backend that computes
// nothing.
func Check(e *experiment.Experiment, dry kernels.Backend) (notes []string, err error) {
	c := &check{Experiment: e, pool: tensor.NewPool(dry), lists: map[string][]prompts.Prompt{}}
	defer kernels.Recover(&err)
	c.readPrompts()
	c.openModel()
	c.checkRewards()
	return c.notes, e.Mistakes()
}

// openModel opens the model's folder, as far as its headers.
func (c *check) openModel() {
	dir, err := assets.Resolve(c.Model.Path)
	if err != nil {
		c.refuse("model.path", err)
		return
	}
	if c.Episode != nil {
		c.openConversations(dir)
		return
	}
	c.openPictures(dir)
}

// exists reports whether a folder has a file.
func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// refuse reports an error at a key, the hint apart.
func (c *check) refuse(keys string, err error) {
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		problem = missing.Path + ": no such file"
	}
	c.Refuse(keys, problem, hint)
}
