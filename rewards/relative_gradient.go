package rewards

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/vision"
)

// Sloped rewards say how each number of a picture changes them (package neural's networks).
type Sloped interface {
	PixelGradient(ctx context.Context, items []Item, pictures []vision.Pixels) (values []float64, grads [][]float32, err error)
}

// PixelGradient is the difference's value and slope, where Of has them.
func (r Relative) PixelGradient(ctx context.Context, items []Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	of, ok := r.Of.(Sloped)
	if !ok {
		return nil, nil, errors.New("a relative reward of one that has no gradient at pixels")
	}
	values, grads, err := of.PixelGradient(ctx, worded(items, r.Positive), pictures)
	if err != nil {
		return nil, nil, err
	}
	less, slopes, err := of.PixelGradient(ctx, worded(items, r.Negative), pictures)
	if err != nil {
		return nil, nil, err
	}
	for i := range values {
		values[i] = float64((1+r.K)*values[i]) - less[i]
		for e, s := range slopes[i] {
			grads[i][e] = float32(float32(1+r.K)*grads[i][e]) - s
		}
	}
	return values, grads, nil
}

// Swapped wants what was not wanted: upstream asks so where a step goes towards noise.
func (r Relative) Swapped() Relative {
	r.Positive, r.Negative = r.Negative, r.Positive
	return r
}
