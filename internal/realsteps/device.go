package main

import (
	"os"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// open opens the device of --device, and returns its close function.
func (a asked) open() (kernels.Backend, func(), error) {
	switch a.device {
	case "count":
		be, err := newCounted()
		return be, func() {}, err
	case "cpu":
		be, err := cpu.New()
		if err != nil {
			return nil, nil, err
		}
		return be, be.Close, nil
	}
	n, err := driver.ParseDevice(a.device)
	if err != nil {
		return nil, nil, err
	}
	be, err := cuda.OpenAs(n, os.Getenv(cuda.ModeVariable))
	if err != nil {
		return nil, nil, err
	}
	return be, func() {
		be.WriteKernelTimes(os.Stderr)
		_ = be.Close()
	}, nil
}
