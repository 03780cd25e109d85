// Package trained takes a run's trained weights out of its folder: the adapter of a checkpoint, or the parameters of
// the model itself under the names that they have in the model's folder, the current ones or their moving average.
// Nothing is computed, and nothing of the run is changed.
//
//	r, err := trained.Open("runs/maps")         // the newest whole checkpoint; a checkpoint's folder is that one
//	dir, err := r.Adapter(trained.Current)      // a folder in PEFT's layout
//	w, err := r.Values(trained.EMA, dry, pool)  // or weights, as a source of tensors
//
// values.go opens the model as the run did, on a backend that computes nothing, since a
// checkpoint numbers weights and does not name them.
package trained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// Which says which weights of a checkpoint are meant.
type Which string

// The weights that a checkpoint may hold.
const (
	Current   Which = "current"
	EMA       Which = "ema"       // their moving average, optim.ema
	Evaluated Which = "evaluated" // whichever of them the run's evaluations measure, evaluate.weights
)

// A Run is a checkpoint of a run, and the experiment that the run was.
type Run struct {
	*experiment.Experiment
	Dir        string // the run's folder
	Checkpoint folder.Checkpoint
	Notes      []string // problems of newer checkpoints
	Model      string   // the folder of the model that was trained
	stage      int      // that the checkpoint was written in
}

// Open opens a run's folder, of whose checkpoints the newest whole one counts, or the folder of one checkpoint.
func Open(path string) (*Run, error) {
	r := &Run{Dir: path}
	var err error
	if has(path, folder.Config) {
		err = r.latest()
	} else if n, no := strconv.Atoi(filepath.Base(filepath.Clean(path))); no == nil && has(path, stateFile) {
		r.Dir, r.Checkpoint = filepath.Dir(filepath.Dir(filepath.Clean(path))), folder.Checkpoint{Dir: path, Iteration: n}
		if !has(r.Dir, folder.Config) {
			return nil, fmt.Errorf("%s: the run that it belongs to has no %s in %s\nhint: a checkpoint is read beside its run's settings; name the run's folder, or put the file back", path, folder.Config, r.Dir)
		}
		err = r.Checkpoint.Check()
	} else {
		return nil, r.neither(path)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(r.Dir, folder.Config))
	if err != nil {
		return nil, err
	}
	if r.Experiment, err = experiment.Parse(filepath.Join(r.Dir, folder.Config), text, nil); err != nil {
		return nil, err
	}
	if r.stage, err = stageOf(r.Checkpoint); err != nil {
		return nil, err
	}
	r.Model, err = assets.Resolve(r.Experiment.Model.Path)
	return r, err
}

// neither describes a path that is not a run.
func (r *Run) neither(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such folder\nhint: name a run's folder (runs/NAME), or one of its checkpoints (runs/NAME/checkpoints/000020)", path)
	}
	return fmt.Errorf("%s is neither a run's folder nor a checkpoint of one: it has no %s and no %s\nhint: an adapter that no run left is read with --lora", path, folder.Config, stateFile)
}

// latest finds the newest checkpoint that is whole.
func (r *Run) latest() error {
	found, spoilt, err := (&folder.Folder{Dir: r.Dir}).Latest()
	switch {
	case err != nil:
		return err
	case found == nil && len(spoilt) > 0:
		return fmt.Errorf("%s: no checkpoint is whole:\n%w\nhint: put one back from a copy", r.Dir, errors.Join(spoilt...))
	case found == nil:
		return fmt.Errorf("%s: there is no checkpoint yet\nhint: the first is written before the first iteration, once what is held out was measured", r.Dir)
	}
	r.Checkpoint = *found
	for _, s := range spoilt {
		r.Notes = append(r.Notes, fmt.Sprintf("%v: the checkpoint of iteration %d is used", s, found.Iteration))
	}
	return nil
}

// stateFile is a checkpoint's state beside tensors.
const stateFile = "state.json"

func stageOf(c folder.Checkpoint) (int, error) {
	path := filepath.Join(c.Dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var s struct {
		Stage int `json:"stage"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return 0, fmt.Errorf("%s: %w\nhint: name an older checkpoint", path, err)
	}
	return s.Stage, nil
}

func has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Modality is the modality of the trained model.
func (r *Run) Modality() model.Modality { return run.ModalityOf(r.Experiment) }

// Adapted reports whether an adapter was trained, and not the model itself.
func (r *Run) Adapted() bool {
	_, adapted := r.Experiment.Model.Trained()
	return adapted
}

// now is the experiment as the checkpoint's stage has it.
func (r *Run) now() *experiment.Experiment {
	if r.stage < len(r.Stages) {
		return r.Stage(r.stage)
	}
	return r.Experiment
}

// Named is which weights are meant: Current or EMA.
func (r *Run) Named(of Which) Which {
	switch at := r.now(); {
	case of != Evaluated:
		return of
	case at.Evaluate.Weights == string(EMA) && at.Optim.EMA > 0:
		return EMA
	}
	return Current
}

// Adapter is the folder of the adapter, in PEFT's layout; that of a second network lies in model.Second below it.
func (r *Run) Adapter(of Which) (string, error) {
	of = r.Named(of)
	if err := r.check(of); err != nil {
		return "", err
	}
	if !r.Adapted() {
		return "", fmt.Errorf("%s trained parameters of the model itself, and no adapter\nhint: --as hub writes the whole model", r.Dir)
	}
	dir := r.Checkpoint.Dir
	if of == EMA {
		dir = filepath.Join(dir, model.EMA)
	}
	if !has(dir, "adapter_config.json") && !has(filepath.Join(dir, model.Second), "adapter_config.json") {
		return "", fmt.Errorf("%s: there is no adapter in it\nhint: the checkpoint is of a version that wrote none; 'darkroom train %s --resume' writes another at its end", dir, r.Dir)
	}
	return dir, nil
}

// check refuses an average that the run does not keep.
func (r *Run) check(of Which) error {
	if of == EMA && r.now().Optim.EMA == 0 {
		return fmt.Errorf("%s keeps no moving average of its weights: optim.ema is 0\nhint: --weights current; the next run may have [optim] ema = 0.9", r.Dir)
	}
	return nil
}
