package main

import (
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/preflight"
)

// checkFiles holds an experiment against the files that it names, before anything is computed. What is wrong is the
// user's mistake; notes are what only seems unwise.
func checkFiles(e *experiment.Experiment) (notes []string, err error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	notes, err = preflight.Check(e, cpu.NewDry(cpu.Options{Path: path}))
	for _, r := range e.Rewards {
		if toy := r.Toy(); toy != "" {
			notes = append(notes, "reward "+r.Name+" is "+toy)
		}
	}
	return notes, asUsage(err)
}
