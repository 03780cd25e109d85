package sde

import "math"

// Flow-SDE (Flow-GRPO; Liu et al., 2025): the SDE with the flow's marginals,
//
//	g    = η·√(s/(1-s))
//	mean = x·(1 - g²Δ/(2s)) - v·(1 + g²(1-s)/(2s))·Δ,   τ = g·√Δ,   Δ = s - s'
//
// Where s is exactly 1 its g is infinite, and upstream puts the schedule's second sigma
// into 1-s. GenRL truncates: g ≤ clip/√Δ, so that τ ≤ clip. At the last step s' = 0 noise is
// drawn like anywhere else: windows leave that step out.
//
// KL divides by g, not τ, upstream.

// FlowSDE is one step with noise level eta; clip > 0 bounds τ.
func FlowSDE(s Schedule, step int, eta, clip float64) Row {
	r := flowRow(s, step)
	delta, below := r.From-r.To, r.From
	if r.From == 1 {
		below = s.Sigmas[1]
	}
	g := eta * math.Sqrt(r.From/(1-below))
	if clip > 0 {
		g = math.Min(g, clip/math.Sqrt(delta))
	}
	r.Next = x(0).times(1 - g*g*delta/(2*r.From)).plus(output(0).times(-(1 + g*g*(1-r.From)/(2*r.From)) * delta))
	r.Noise, r.KLDeviation = g*math.Sqrt(delta), g
	if r.Noise != 0 {
		r.Density = Gaussian
	}
	return r
}

// FlowSDEOptions are the options of Flow-SDE alone.
type FlowSDEOptions struct {
	NoiseLimit float64 `toml:"noise_limit" range:"[0,inf)" doc:"of flow-sde: the largest deviation of a step; 0: none"`
}

// FlowSDESolver is Flow-GRPO's solver.
var FlowSDESolver = Solver{
	Name: "flow-sde", Card: "The SDE with the flow's marginals (Flow-GRPO); noise_limit bounds a step's deviation (LongCat, GenRL).",
	Paper: "Flow-GRPO (Liu et al., 2025)", Formula: "x·(1 - g²Δ/2s) - v·(1 + g²(1-s)/2s)·Δ + g·√Δ·ε, g = η·√(s/(1-s))",
	Cases:      []string{"sde.flow_sde", "sde.flow_factory", "sde.verl_omni", "sde.truncated", "sde.mixgrpo_flow"},
	Stochastic: true, Density: true, LeavesNoise: true, UnitScale: true,
	Kept: Rectified, Options: FlowSDEOptions{},
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row { return FlowSDE(s, step, o.Noise, o.NoiseLimit) }
	},
}
