// Package sdetest has problems with known answers, and solvers' results on them.
//
// For Gaussian data the best network is linear, so that a row takes a mean and a variance to
// a mean and a variance: orders and marginals are measured without a single sample.
package sdetest

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// Gaussian is data of one number with this mean and variance, under the flow
// x_s = (1-s)·x0 + s·e.
type Gaussian struct{ Mean, Variance float64 }

// At is the mean and the variance of x_s.
func (g Gaussian) At(s float64) (mean, variance float64) {
	return (1 - s) * g.Mean, (1-s)*(1-s)*g.Variance + s*s
}

// Velocity is E[e - x0 | x_s = x], as slope·x + shift.
func (g Gaussian) Velocity(s float64) (slope, shift float64) {
	mean, variance := g.At(s)
	slope = (s - (1-s)*g.Variance) / variance
	return slope, -slope*mean - g.Mean
}

// Path is the flow's path of a point z deviations from the mean: it keeps this distance.
func (g Gaussian) Path(s, z float64) float64 {
	mean, variance := g.At(s)
	return mean + z*math.Sqrt(variance)
}

// Even is a schedule of steps between two sigmas, even in the logarithm of the signal-to-noise
// ratio, in which exponential integrators have their order.
func Even(from, to float64, steps int) sde.Schedule {
	l := func(s float64) float64 { return math.Log((1 - s) / s) }
	var sigmas []float64
	for i := range steps + 1 {
		v := l(from) + (l(to)-l(from))*float64(i)/float64(steps)
		sigmas = append(sigmas, 1/(1+math.Exp(v)))
	}
	return sde.Schedule{Sigmas: sigmas}
}

// Solver makes the rows of a schedule.
type Solver func(s sde.Schedule) []sde.Row

// Each is the solver that makes every row alike.
func Each(row func(s sde.Schedule, step int) sde.Row) Solver {
	return func(s sde.Schedule) []sde.Row {
		var rows []sde.Row
		for i := range s.Steps() {
			rows = append(rows, row(s, i))
		}
		return rows
	}
}

// Error is how far a deterministic solver ends from the path that it began on.
func (g Gaussian) Error(solver Solver, s sde.Schedule) float64 {
	const z = 0.7
	net := func(x []float64, step int) []float64 {
		slope, shift := g.Velocity(s.Sigmas[step])
		return []float64{slope*x[0] + shift}
	}
	t := sde.Run(solver(s), []float64{g.Path(s.Sigmas[0], z)}, net, nil)
	return math.Abs(t.States[s.Steps()][0] - g.Path(s.Sigmas[s.Steps()], z))
}

// Marginal is the mean and the variance that a solver ends with, begun with the true ones.
// The network is linear, so that whatever rows make of the start and their draws is linear
// too: sde.Run goes through once, with the coefficients of (1, start, draw 0, draw 1, ...) in
// the place of latents. That holds for every row without a Clamp, of any lag.
func (g Gaussian) Marginal(solver Solver, s sde.Schedule) (mean, variance float64) {
	n := s.Steps() + 2
	start := make([]float64, n)
	start[0], variance = g.At(s.Sigmas[0])
	start[1] = math.Sqrt(variance)
	net := func(x []float64, step int) []float64 {
		slope, shift := g.Velocity(s.Sigmas[step])
		out := make([]float64, n)
		for i, v := range x {
			out[i] = slope * v
		}
		out[0] += shift
		return out
	}
	draw := func(step int) []float64 {
		z := make([]float64, n)
		z[step+2] = 1
		return z
	}
	t := sde.Run(solver(s), start, net, draw)
	end := t.States[s.Steps()]
	variance = 0
	for _, c := range end[1:] {
		variance += c * c
	}
	return end[0], variance
}

// Order is the slope of the logarithm of an error over the logarithm of the step size,
// between two numbers of steps.
func Order(err func(steps int) float64, coarse, fine int) float64 {
	return math.Log(err(coarse)/err(fine)) / math.Log(float64(fine)/float64(coarse))
}
