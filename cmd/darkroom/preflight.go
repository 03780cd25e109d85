package main

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
	"github.com/darkroom-rl/darkroom/trainer/preflight"
)

// checkFiles holds an experiment against the files that it names, before anything is computed. What is wrong is the
// user's mistake; notes are what only seems unwise.
func checkFiles(e *experiment.Experiment) (notes []string, err error) {
	dry, err := dryBackend()
	if err != nil {
		return nil, err
	}
	return checkOn(e, dry)
}

// withFiles adds to the mistakes of a file those of the files that it names, as far as it could be read.
func withFiles(e *experiment.Experiment, mistakes error) error {
	if e == nil {
		return mistakes
	}
	if _, err := checkFiles(e); err != nil {
		return err
	}
	return mistakes
}

// checkOn is checkFiles on a backend.
func checkOn(e *experiment.Experiment, dry kernels.Backend) (notes []string, err error) {
	notes, err = preflight.Check(e, dry)
	for _, r := range e.Rewards {
		if toy := r.Toy(); toy != "" {
			notes = append(notes, "reward "+r.Name+" is "+toy)
		}
	}
	if says := e.Fitted(); says != "" {
		notes = append(notes, says)
	}
	return notes, asUsage(err)
}

// countingBackend computes nothing and counts. For a model's folder that has settings and no weights it is one that
// does without them, and a note says so.
func countingBackend(e *experiment.Experiment) (dry func() model.Dry, note string, err error) {
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
