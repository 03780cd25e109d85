package hed

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// usualSide is the side of a picture by which memory is predicted.
const usualSide = 512

// Takes predicts the most memory of a picture beside the weights, on a backend that counts and does not compute.
func Takes(path string, precision features.Precision) (int64, error) {
	pool := tensor.NewPool(cpu.NewDry(cpu.Options{}))
	n, err := Open(path, features.On(pool, precision))
	if err != nil {
		return 0, err
	}
	defer n.Close()
	weights := 0
	for range 2 { // the first packs weights
		weights = int(pool.Stats().InUse)
		pool.ResetPeak()
		if _, err := n.Maps(context.Background(), vision.New(usualSide, usualSide)); err != nil {
			return 0, err
		}
	}
	return int64(pool.Stats().Peak) - int64(weights), nil
}
