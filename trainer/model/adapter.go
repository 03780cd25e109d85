package model

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// An Adapter is [model.lora] on a network's parameters.
type Adapter struct {
	*nn.Adapters
	Options nn.LoRA
}

// Adapt puts the adapter on; nil where parameters of the model itself are trained.
func Adapt(e *experiment.Experiment, params *nn.Params) (*Adapter, error) {
	if _, adapted := e.Model.Trained(); !adapted {
		return nil, nil
	}
	l := e.Model.LoRA
	o := nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets, Key: rng.New(uint64(e.Run.Seed)).With("lora")}
	a, err := params.AddLoRA(o)
	if err != nil {
		return nil, fmt.Errorf("model.lora: %w", err)
	}
	return &Adapter{a, o}, nil
}

// Write writes the adapter in PEFT's layout.
func (a *Adapter) Write(dir string) error {
	if a == nil {
		return nil
	}
	return peft.Write(dir, a.Adapters, peft.Settings{Rank: a.Options.Rank, Alpha: float64(a.Options.Alpha)})
}

// On is the adapter as a Learner takes it.
func (a *Adapter) On() *nn.Adapters {
	if a == nil {
		return nil
	}
	return a.Adapters
}
