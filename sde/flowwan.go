package sde

import "math"

// The kernel of Flow-GRPO's Wan script (Liu et al., 2025; wan_pipeline_with_logprob.py), which Flash-GRPO and
// UniRL share: Flow-SDE's step, whose noise is linear in sigma,
//
//	g    = σ_last + (σ_1 - σ_last)·s
//	mean = x·(1 - g²Δ/(2s)) - v·(1 + g²(1-s)/(2s))·Δ,   τ = g·√Δ,   Δ = s - s'
//
// σ_1 is the schedule's second sigma, σ_last its last: on UniPC's grid g stays below 1, and s = 1 needs no
// case of its own. There is no noise level upstream; eta scales g, as UniRL does. KL divides by 2τ².
//
// Invariant (test): with v the flow's own velocity the step has the flow's marginals, as Flow-SDE's.

// linearNoise is g.
func linearNoise(s Schedule, step int, eta float64) float64 {
	last := s.Sigmas[len(s.Sigmas)-1]
	return eta * (last + float64((s.Sigmas[1]-last)*s.Sigmas[step]))
}

// FlowWan is one step with noise level eta; upstream's is 1.
func FlowWan(s Schedule, step int, eta float64) Row {
	r, g := flowRow(s, step), linearNoise(s, step, eta)
	delta := r.From - r.To
	r.Next = x(0).times(1 - g*g*delta/(2*r.From)).plus(output(0).times(-(1 + g*g*(1-r.From)/(2*r.From)) * delta))
	r.Noise = g * math.Sqrt(delta)
	if r.KLDeviation = r.Noise; r.Noise != 0 {
		r.Density = Gaussian
	}
	return r
}

// FlowWanSolver is the solver of Flow-GRPO's Wan script.
var FlowWanSolver = Solver{
	Name: "flow-wan", Card: "The SDE of Flow-GRPO's Wan script, whose noise falls with sigma (Flash-GRPO, UniRL); noise = 1 upstream.",
	Paper: "Flow-GRPO's Wan script", Formula: "the same with g = η·(s_last + (s_1 - s_last)·s), s_1 and s_last the schedule's second and last",
	Cases:      []string{"sde.flow_grpo_wan", "rollout.wan_sde"},
	Stochastic: true, Density: true, Kept: Rectified,
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row { return FlowWan(s, step, o.Noise) }
	},
}
