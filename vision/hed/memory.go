package hed

import (
	"context"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// usualSide is the side of a picture by which memory is predicted.
const usualSide = 512

// Takes predicts the most memory of a picture beside the weights.
func Takes(path string, precision features.Precision) (int64, error) {
	return features.Takes(precision, func(on *features.Device) (question func() error, closing func(), err error) {
		n, err := Open(path, on)
		if err != nil {
			return nil, nil, err
		}
		return func() error {
			_, err := n.Maps(context.Background(), vision.New(usualSide, usualSide))
			return err
		}, n.Close, nil
	})
}
