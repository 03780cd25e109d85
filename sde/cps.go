package sde

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// FlowCPS (coefficient-preserving sampling; Wang and Yu, 2025): with x0 = x - s·v and the
// predicted noise x1 = x + (1-s)·v,
//
//	τ    = s'·sin(η·π/2)
//	mean = (1-s')·x0 + √(s'² - τ²)·x1
//
// so that the next latents have just the noise that their time asks for. Upstream's
// log-probability is the bare square, and its KL divides by τ (by 1 in GenRL).

// CPS is one step with noise level eta between 0 and 1.
func CPS(s Schedule, step int, eta float64) Row {
	r := flowRow(s, step)
	r.Noise = r.To * portable.Sin(eta*math.Pi/2)
	noise := x(0).plus(output(0).times(1 - r.From))
	r.Next = r.Clean.times(1 - r.To).plus(noise.times(math.Sqrt(float64(r.To*r.To) - float64(r.Noise*r.Noise))))
	r.KLDeviation, r.Density = r.Noise, Square
	return r
}

// CPSSolver is Flow-CPS's solver.
var CPSSolver = Solver{
	Name: "cps", Card: "Coefficients-preserving sampling (Flow-CPS): latents have the noise that their time asks for; the log-probability is the bare square.",
	Paper: "Flow-CPS (Wang and Yu, 2025)", Formula: "(1-s')·x0 + √(s'² - τ²)·x1 + τ·ε, τ = s'·sin(η·π/2)", Cases: []string{"sde.flow_cps"},
	Stochastic: true, Density: true,
	Check: func(o SolverOptions, report func(key, problem, hint string)) {
		if o.Noise > 1 {
			report("noise", fmt.Sprintf("cps draws a share of each step's noise, sin(eta·π/2), and %v is above 1", o.Noise), "0.8 is what Flow-CPS uses")
		}
	},
	Build: func(o SolverOptions) func(Schedule, int) Row {
		return func(s Schedule, step int) Row { return CPS(s, step, o.Noise) }
	},
}
