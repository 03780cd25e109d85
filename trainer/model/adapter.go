package model

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/rng"
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
