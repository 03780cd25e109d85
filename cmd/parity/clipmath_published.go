package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// flashWeightOf is Flash-GRPO's weight of a step of sde.FlowWan, which keeps 1/c of the gradient: advantages are times
// c = 1/(√Δ/g + g·√Δ·(1-s)/(2s)), over its mean in the batch.
func flashWeightOf(s sde.Schedule, step int) float64 {
	last, from := s.Sigmas[len(s.Sigmas)-1], s.Sigmas[step]
	g := last + float64((s.Sigmas[1]-last)*from)
	root := math.Sqrt(from - s.Sigmas[step+1])
	return 1 / (root/g + g*root*(1-from)/(2*from))
}

// flashStep is the one step that a prompt's samples draw at, of the first n: u is uniform from 0 to 1.
func flashStep(u float64, n int) int { return min(int(u*float64(n)), n-1) }
