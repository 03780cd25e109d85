package devices

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Counting computes nothing and counts. For a model's folder that has settings and no weights it is one that
// does without them, and a note says so.
func Counting(e *experiment.Experiment) (dry func() model.Dry, note string, err error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, "", err
	}
	o := cpu.Options{Path: path}
	if dir, err := assets.Resolve(e.Model.Path); err == nil {
		if parts, err := pipeline.Absent(dir); err == nil && len(parts) > 0 {
			note = fmt.Sprintf("%s has no weights of %s: what config.json says was checked and counted, as if weights were bf16; 'train' needs them", e.Model.Path, strings.Join(parts, ", "))
			return func() model.Dry { return cpu.NewBare(o) }, note, nil
		}
	}
	return func() model.Dry { return cpu.NewDry(o) }, "", nil
}

// Dry computes nothing.
func Dry() (kernels.Backend, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return cpu.NewDry(cpu.Options{Path: path}), nil
}
