package sde

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Times at which training noises a clean sample. Draws are arguments: u uniform or normal,
// perm a permutation.

// LogitNormal is a shifted logit-normal time (AWM): sigmoid(std·u + mean), shifted.
func LogitNormal(u, mean, std, shift float64) float64 {
	return Shift(shift, 1/(1+portable.Exp(-(float64(u*std)+mean))))
}

// Quantile is the standard normal's at a share, which is kept 1e-7 away from 0 and 1.
func Quantile(share float64) float64 { return normalQuantile(math.Min(math.Max(share, 1e-7), 1-1e-7)) }
