package detectors

import (
	"context"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// usualSide is the side of a picture by which memory is predicted; most kinds resize pictures to a size of their own.
const usualSide = 512

// Takes predicts the most memory of a question beside the weights.
func Takes(dir string, precision features.Precision) (int64, error) {
	return features.Takes(precision, func(on *features.Device) (question func() error, closing func(), err error) {
		d, err := Open(dir, on, Options{})
		if err != nil {
			return nil, nil, err
		}
		labels := d.Labels()
		if labels == nil {
			labels = []string{"a thing"}
		}
		return func() error {
			_, err := d.Detect(context.Background(), vision.New(usualSide, usualSide), labels, 0.5)
			return err
		}, d.Close, nil
	})
}
