package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// A Folder is a model's folder that is held against an experiment before anything is computed. Settings and headers
// of weights are read, on a backend that computes nothing; what does not fit is refused at its place in the
// experiment's file.
type Folder struct {
	*experiment.Experiment
	Pool  *tensor.Pool
	Dir   string
	Lists map[string][]prompts.Prompt // what could be read of the prompts, by key
}

// Has reports whether the folder has a file.
func (c *Folder) Has(name string) bool {
	_, err := os.Stat(filepath.Join(c.Dir, name))
	return err == nil
}

// Fail reports an error at a key, the hint apart.
func (c *Folder) Fail(keys string, err error) {
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		problem = missing.Path + ": no such file"
	}
	c.Refuse(keys, problem, hint)
}

// CheckTargets puts the adapter on: each target must match a layer. Where the file names none, they are the usual ones.
func (c *Folder) CheckTargets(params *nn.Params, usual []string) {
	l := &c.Model.LoRA
	if !c.Given("model.lora.targets") && usual != nil {
		l.Targets = usual
	}
	hint := fmt.Sprintf("usual for this model: targets = [%s]", `"`+strings.Join(usual, `", "`)+`"`)
	set, err := params.AddLoRA(nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets})
	if err != nil {
		c.Refuse("model.lora.targets|model.lora|model.path", err.Error(), hint)
		return
	}
	for _, t := range l.Targets {
		if t != "all-linear" && !matches(set.Modules(), t) {
			c.Refuse("model.lora.targets|model.lora|model.path", fmt.Sprintf("%q matches no layer, though others do", t), hint)
		}
	}
}

// matches reports whether a layer's name is a target, or ends in it.
func matches(layers []string, target string) bool {
	for _, name := range layers {
		if name == target || strings.HasSuffix(name, "."+target) {
			return true
		}
	}
	return false
}
