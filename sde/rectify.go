package sde

import "math"

// Card: how much of the gradient a step of Flow-SDE's kind keeps (Flash-GRPO), whatever its g (FlowSDE, FlowWan). Of
// the mean x·(1 - g²Δ/2s) - v·(1 + g²(1-s)/2s)·Δ and τ = g·√Δ, the score's share of the log-probability's slope at v is
//
//	1/c,   c = 1/(√Δ/g + g·√Δ·(1-s)/(2s)) = 1/(Δ/τ + τ·(1-s)/(2s))
//
// It vanishes as a shift moves steps towards noise, so that samples which draw at different steps teach unequally.
// Advantages times c, over its mean in the batch, undo that.
//
// Invariant (test): the ten weights that Flash-GRPO has as a table, to all its digits.

// Rectified is c of a step that draws.
func Rectified(r Row) float64 {
	return 1 / ((r.From-r.To)/r.Noise + r.Noise*(1-r.From)/(2*r.From))
}

// OneOf is the one step of a window that a prompt's samples draw at: u is uniform from 0 to 1.
func OneOf(window []int, u float64) int {
	return window[min(int(math.Floor(u*float64(len(window)))), len(window)-1)]
}
