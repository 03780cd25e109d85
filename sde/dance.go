package sde

import "math"

// DanceGRPO's SDE (Xue et al., 2025): with the score of the predicted clean sample,
//
//	score = -(x - (1-s)·x0)/s²
//	mean  = x - v·Δ + η²/2·score·Δ,   τ = η·√Δ
//
// MixGRPO's copy drops the log-probability's constants. KL divides by τ in verl-omni, and
// by η in Flow-Factory. DanceGRPO draws noise even where it says ODE; nothing samples so.

// Dance is one step with noise level eta.
func Dance(s Schedule, step int, eta float64, density Density) Row {
	r := flowRow(s, step)
	delta := r.From - r.To
	score := x(0).minus(r.Clean.times(1 - r.From)).times(-1 / (r.From * r.From))
	r.Next = x(0).plus(output(0).times(-delta), score.times(eta*eta/2*delta))
	r.Noise = eta * math.Sqrt(delta)
	r.KLDeviation = r.Noise
	if r.Noise != 0 {
		r.Density = density
	}
	return r
}

// DanceOptions are the options of DanceGRPO's solver alone.
type DanceOptions struct {
	Density string `toml:"density" enum:"gaussian,unnormalised" doc:"of dance: whether the log-probability has its constants"`
}

// DanceSolver is DanceGRPO's solver.
var DanceSolver = Solver{
	Name: "dance", Card: "DanceGRPO's SDE: constant noise, the score of the predicted clean sample.",
	Paper: "DanceGRPO (Xue et al., 2025)", Formula: "x - v·Δ - η²/2·(x - (1-s)·x0)/s²·Δ + η·√Δ·ε",
	Cases:      []string{"sde.dance", "sde.dance_unnormalised", "sde.branch_split"},
	Stochastic: true, Density: true, Options: DanceOptions{},
	Build: func(o SolverOptions) func(Schedule, int) Row {
		density := Gaussian
		if o.Density == "unnormalised" {
			density = Unnormalised
		}
		return func(s Schedule, step int) Row { return Dance(s, step, o.Noise, density) }
	},
}
