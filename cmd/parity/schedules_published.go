package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

// timesOf are Flow-Factory's: n of them inside [low, high) of the way from the schedule's
// start, as timesteps out of 1000. Note that its shift moves times towards 0.
//
//	uniform                  stratified: (j + u_j)/n, then permuted, then shifted
//	logit_normal_stratified  the normal's quantiles of the same, permuted
//	logit_normal             u is normal
func timesOf(kind string, n int, low, high, shift float64, u []float64, perm []int) []float64 {
	strata := times(n, func(j int) float64 { return (float64(j) + u[j]) / float64(n) })
	t := make([]float64, n)
	for j := range t {
		var f float64
		switch kind {
		case "uniform":
			f = sde.Shift(shift, low+float64(strata[perm[j]]*(high-low)))
		case "logit_normal", "logit_normal_stratified":
			z := u[j]
			if kind == "logit_normal_stratified" {
				z = sde.Quantile(strata[perm[j]])
			}
			raw := math.Min(math.Max(sde.Shift(shift, 1/(1+portable.Exp(-z))), 0.01), 1-1e-6)
			f = low + float64(raw*(high-low))
		default:
			failf("times of kind %q are not known: uniform, logit_normal and logit_normal_stratified are", kind)
		}
		t[j] = 1000 * (1 - f)
	}
	return t
}

// lossWeight is SD3's weight of a time: "sigma_sqrt" s⁻², "cosmap" 2/(π(1-2s+2s²)), else 1.
func lossWeight(scheme string, sigma float64) float64 {
	switch scheme {
	case "sigma_sqrt":
		return 1 / (sigma * sigma)
	case "cosmap":
		return 2 / (math.Pi * (1 - 2*sigma + float64(2*sigma*sigma)))
	}
	return 1
}
