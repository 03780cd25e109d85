package detectors

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// usualSide is the side of a picture by which memory is predicted; most kinds resize pictures to a size of their own.
const usualSide = 512

// Takes predicts the most memory of a question beside the weights, on a backend that counts and does not compute.
func Takes(dir string, precision features.Precision) (int64, error) {
	pool := tensor.NewPool(cpu.NewDry(cpu.Options{}))
	d, err := Open(dir, features.On(pool, precision), Options{})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	labels := d.Labels()
	if labels == nil {
		labels = []string{"a thing"}
	}
	weights := 0
	for range 2 { // the first packs weights
		weights = int(pool.Stats().InUse)
		pool.ResetPeak()
		if _, err := d.Detect(context.Background(), vision.New(usualSide, usualSide), labels, 0.5); err != nil {
			return 0, err
		}
	}
	return int64(pool.Stats().Peak) - int64(weights), nil
}
