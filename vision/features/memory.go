package features

import (
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Takes predicts the most memory of a question beside a network's weights, on a backend that counts and does not
// compute. Open returns the question and the network's close.
func Takes(p Precision, open func(*Device) (question func() error, closing func(), err error)) (int64, error) {
	pool := tensor.NewPool(cpu.NewDry(cpu.Options{}))
	question, closing, err := open(On(pool, p))
	if err != nil {
		return 0, err
	}
	defer closing()
	weights := int64(0)
	for range 2 { // the first packs weights
		weights = int64(pool.Stats().InUse)
		pool.ResetPeak()
		if err := question(); err != nil {
			return 0, err
		}
	}
	return int64(pool.Stats().Peak) - weights, nil
}
