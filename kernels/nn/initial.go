package nn

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// initial draws a parameter that is not read.
type initial struct {
	bound float32 // uniform between -bound and bound
	value float32 // or this constant
	sigma float32 // or normal
	fill  func() []float32
}

func (i initial) draw(k rng.Key, n int) []float32 {
	if i.fill != nil {
		return i.fill()
	}
	x := make([]float32, n)
	switch {
	case i.bound > 0:
		k.Uniform(x, 0)
		for j, u := range x {
			x[j] = float32(i.bound * (2*u - 1))
		}
	case i.sigma > 0:
		k.Normal(x, 0)
		for j, u := range x {
			x[j] = i.sigma * u
		}
	default:
		for j := range x {
			x[j] = i.value
		}
	}
	return x
}

// fanIn is PyTorch's default for layers: uniform within 1/sqrt(inputs).
func fanIn(n int) initial { return initial{bound: float32(1 / math.Sqrt(float64(n)))} }
