package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A Folder is a model's folder that is held against an experiment before anything is computed. Settings and headers
// of weights are read, on a backend that computes nothing; a contradiction is refused at its place in the
// experiment's file.
type Folder struct {
	*experiment.Experiment
	Pool    *tensor.Pool
	Dir     string
	Prompts map[string][]prompts.Prompt // the readable ones, by key
	Notes   []string                    // warnings of plan
}

// Has reports whether the folder has a file.
func (c *Folder) Has(name string) bool {
	_, err := os.Stat(filepath.Join(c.Dir, name))
	return err == nil
}

// Fail reports an error at a key, the hint apart.
func (c *Folder) Fail(keys string, err error) {
	problem, hint := split(err)
	c.Refuse(keys, problem, hint)
}

// FailAt is Fail at a key of one of Turns.
func (c *Folder) FailAt(turn int, keys string, err error) {
	problem, hint := split(err)
	c.RefuseAt(turn, keys, problem, hint)
}

// split is an error's problem, and its hint.
func split(err error) (problem, hint string) {
	problem, hint, _ = strings.Cut(err.Error(), "\nhint: ")
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		problem = missing.Path + ": no such file"
	}
	return problem, hint
}

// CheckAdapter puts the adapter that is trained on: the one that model.adapter names, whose rank and layers
// [model.lora] has from now on, or a new one.
func (c *Folder) CheckAdapter(params *nn.Params, known Known, usual []string) {
	if c.Model.Adapter == "" {
		c.CheckTargets(params, usual)
		return
	}
	a, err := known.adapt(c.Model.Adapter, params)
	if err != nil {
		problem, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), "model.adapter: "), "\nhint: ")
		if errors.Is(err, fs.ErrNotExist) {
			problem, hint = c.Model.Adapter+": no such file", "names begin in the folder that the program is called in"
		}
		if hint == "" {
			hint = "an adapter of the model in " + c.Model.Path + " is needed; 'darkroom inspect " + c.Model.Adapter + "' says what this one is"
		}
		c.Refuse("model.adapter", problem, hint)
		return
	}
	c.Model.LoRA = experiment.LoRA{Rank: a.settings.Rank, Alpha: a.settings.Alpha, Targets: ends(a.Modules()), Init: c.Model.LoRA.Init}
}

// CheckMoves refuses a stage's patterns that match no trained parameter.
func (c *Folder) CheckMoves(parts ...Part) {
	var names []string
	for _, p := range parts {
		names = append(names, p.Names()...)
	}
	for i, at := range c.EachStage() {
		for _, p := range at.Moves().Idle(names) {
			if len(names) > 0 {
				c.RefuseAt(i, "train", fmt.Sprintf("%q is the name of no parameter that is trained", p), fmt.Sprintf("a pattern for whole names, such as that of %q", names[0]))
			}
		}
	}
}

// ends are how layers' names end behind the number of their block.
func ends(layers []string) []string {
	var all []string
	for _, name := range layers {
		parts := strings.Split(name, ".")
		last := 0
		for i, p := range parts[:len(parts)-1] {
			if _, err := strconv.Atoi(p); err == nil && i+2 < len(parts) {
				last = i + 1
			}
		}
		if end := strings.Join(parts[last:], "."); !slices.Contains(all, end) {
			all = append(all, end)
		}
	}
	return all
}

// CheckTargets puts the adapter on: each target must match a layer. Where the file names none, they are those of the
// usual ones that the model has.
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
	if !c.Given("model.lora.targets") && usual != nil {
		l.Targets = slices.DeleteFunc(slices.Clone(usual), func(t string) bool { return !matches(set.Modules(), t) })
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
