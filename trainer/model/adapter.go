package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// An Adapter is the low-rank pairs that are trained on a network's parameters: new ones as [model.lora] says, or those
// that model.adapter names.
type Adapter struct {
	*nn.Adapters
	pairs    []nn.LoRA
	settings peft.Settings
	part     string // "": of the only network, or the first; else the folder below that it is written to
}

// Adapt puts the adapter on; nil where parameters of the model itself are trained.
func Adapt(e *experiment.Experiment, params *nn.Params, known Known) (*Adapter, error) {
	if _, adapted := e.Model.Trained(); !adapted {
		return nil, nil
	}
	if e.Model.Adapter != "" {
		return known.adapt(e.Model.Adapter, params)
	}
	l := e.Model.LoRA
	o := nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets, Gaussian: l.Init == "gaussian", Key: rng.New(uint64(e.Run.Seed)).With("lora")}
	if known.Part != "" {
		o.Key = o.Key.With(rng.Purpose(known.Part))
	}
	a, err := params.AddLoRA(o)
	if err != nil {
		return nil, fmt.Errorf("model.lora: %w", err)
	}
	return &Adapter{a, []nn.LoRA{o}, peft.Settings{Rank: o.Rank, Alpha: float64(o.Alpha)}, known.Part}, nil
}

// PutOn puts an adapter of the same shape on another network's parameters.
func (a *Adapter) PutOn(params *nn.Params) (*nn.Adapters, error) {
	return peft.Put(params, a.pairs)
}

// Write writes the adapter in PEFT's layout.
func (a *Adapter) Write(dir string) error {
	if a == nil {
		return nil
	}
	return peft.Write(filepath.Join(dir, a.part), a.Adapters, a.settings)
}

// On is the adapter as a Learner takes it.
func (a *Adapter) On() *nn.Adapters {
	if a == nil {
		return nil
	}
	return a.Adapters
}

// Known has the network's names in an adapter's file.
type Known struct {
	Component string                    // in diffusers' files
	Names     func(layer string) string // the network's name of a layer that may have another library's; nil: the same
	// Part is the network, as a Part is named, of two that take turns; Alone says that the other one is not trained.
	Part  string
	Alone bool
}

// at is where the network's adapter lies: the first one's where path says, and the second one's in a folder below it. A
// path without such a folder is the second one's where that is trained alone.
func (k Known) at(path string) (string, error) {
	has, below := halves(path)
	switch {
	case k.Part == "" && peft.Second(path, Second) == path:
		return "", fmt.Errorf("%s is by its name the adapter of %s, and the first network is trained\nhint: experts = \"low\"", path, Second)
	case k.Alone && has[0] && has[1]:
		return "", fmt.Errorf("%s holds adapters of two networks, and model.experts trains one\nhint: experts = \"both\", or name a folder with the adapter of the one", path)
	case k.Part == "" && (has[0] || !has[1]):
		return path, nil
	case k.Part == "":
		return "", fmt.Errorf("%s holds an adapter of %s alone, and the first network is trained\nhint: experts = \"low\"", path, Second)
	case has[1]:
		return below, nil
	case k.Alone:
		return path, nil
	}
	return "", fmt.Errorf("%s holds an adapter of one network, and two are trained\nhint: experts = \"high\" or \"low\"; or put the adapter of the second network into %s", path, below)
}

// halves reports of which networks that take turns a path holds adapters, and where that of the second one lies.
func halves(path string) (has [2]bool, below string) {
	below = filepath.Join(path, Second)
	_, first := peft.Files(path)
	_, second := peft.Files(below)
	return [2]bool{first == nil, second == nil}, below
}

// Halves reports of which networks that take turns a path of Open's holds adapters.
func Halves(path string) (has [2]bool, err error) {
	if path, err = newest(path); err == nil {
		has, _ = halves(path)
	}
	if path == peft.Second(path, Second) {
		has[0], has[1] = false, has[0]
	}
	return has, err
}

// Open opens an adapter: a folder of PEFT's, as a run's checkpoint is one; a folder or a file of diffusers'; or a run's
// folder, of whose checkpoints the newest whole one counts.
func (k Known) Open(path string) (*peft.Adapter, error) {
	path, err := newest(path)
	if err != nil {
		return nil, err
	}
	if path, err = k.at(path); err != nil {
		return nil, err
	}
	a, err := peft.Open(path, k.Component)
	if err != nil {
		return nil, err
	}
	if k.Names != nil {
		a.Rename(k.Names)
	}
	return a, nil
}

// newest is the newest whole checkpoint of a run's folder, and any other path itself.
func newest(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, folder.Config)); err != nil {
		return path, nil
	}
	found, _, err := (&folder.Folder{Dir: path}).Latest()
	if err != nil {
		return "", err
	}
	if found == nil {
		return "", fmt.Errorf("%s: the run has no whole checkpoint\nhint: name one that has, or an adapter's folder", path)
	}
	return found.Dir, nil
}

// AdapterFiles are those that model.adapter is read from.
func AdapterFiles(path string) ([]string, error) {
	path, err := newest(path)
	if err != nil {
		return nil, err
	}
	files, err := peft.Files(path)
	second, none := peft.Files(filepath.Join(path, Second))
	if none == nil {
		return append(files, second...), nil
	}
	return files, err
}

// adapt puts an adapter that exists on a network. Dropout is left out: with it the first ratio would not be 1.
func (k Known) adapt(path string, params *nn.Params) (a *Adapter, err error) {
	file, err := k.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model.adapter: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	file.NoDropout()
	a = &Adapter{part: k.Part}
	if a.settings, err = file.Settings(); err != nil {
		return nil, fmt.Errorf("model.adapter: %w", err)
	}
	if a.pairs, err = file.Pairs(); err != nil {
		return nil, fmt.Errorf("model.adapter: %w", err)
	}
	if a.Adapters, err = file.AddTo(params); err != nil {
		return nil, fmt.Errorf("model.adapter: %w", err)
	}
	return a, nil
}
