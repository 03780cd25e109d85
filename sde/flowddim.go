package sde

import "math"

// DDIM for flows (DiffusionNFT's solver): with n = (x - (1-s)·x0)/s the predicted noise,
//
//	τ    = η·s'·√(1 - s'²(1-s)² / (s²(1-s')²))
//	mean = (1-s')·x0 + √(s'² - τ²)·n
//
// η = 0 is Euler's step. Upstream's scoring path ignores the sample that it is given; here
// the density is that of any sample.

// FlowDDIM is one step.
func FlowDDIM(s Schedule, step int, eta float64) Row {
	r := flowRow(s, step)
	from, to := r.From, r.To
	r.Noise = eta * to * math.Sqrt(1-to*to*(1-from)*(1-from)/(from*from*(1-to)*(1-to)))
	noise := x(0).minus(r.Clean.times(1 - from)).times(1 / from)
	r.Next = r.Clean.times(1 - to).plus(noise.times(math.Sqrt(float64(to*to) - float64(r.Noise*r.Noise))))
	r.KLDeviation = r.Noise
	if r.Noise != 0 {
		r.Density = Gaussian
	}
	return r
}

// FlowDDIMSolver is DiffusionNFT's solver.
var FlowDDIMSolver = Solver{
	Name: "flow-ddim", Card: "DDIM for flows (DiffusionNFT's solver); noise = 0 is Euler's step.",
	Paper: "DiffusionNFT's solver", Formula: "(1-s')·x0 + √(s'² - τ²)·x1 + τ·ε, τ = η·s'·√(1 - s'²(1-s)²/(s²(1-s')²))", Cases: []string{"sde.flow_ddim"},
	Stochastic: true, Density: true,
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row { return FlowDDIM(s, step, o.Noise) }
	},
}
