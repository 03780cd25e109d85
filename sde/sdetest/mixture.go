package sdetest

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// Mixture is data of one number with two equal modes at ±Mode, each of this variance: the
// flow is closed in form but not linear, so that methods whose order only shows where the
// slope bends (Heun, third order) are measured on it too.
type Mixture struct{ Mode, Variance float64 }

// Velocity is E[e - x0 | x_s = x]: the modes' velocities, weighted by how likely x is under
// each. The ratio of the two is exp(2·(1-s)·Mode·x/variance).
func (m Mixture) Velocity(x, s float64) float64 {
	_, variance := Gaussian{m.Mode, m.Variance}.At(s)
	right := 1 / (1 + math.Exp(-2*(1-s)*m.Mode*x/variance))
	of := func(mode float64) float64 {
		slope, shift := Gaussian{mode, m.Variance}.Velocity(s)
		return slope*x + shift
	}
	return right*of(m.Mode) + (1-right)*of(-m.Mode)
}

// End is where a deterministic solver takes x.
func (m Mixture) End(solver Solver, s sde.Schedule, x float64) float64 {
	net := func(x []float64, step int) []float64 { return []float64{m.Velocity(x[0], s.Sigmas[step])} }
	t := sde.Run(solver(s), []float64{x}, net, nil)
	return t.States[s.Steps()][0]
}

// Flow is where the flow takes x from one sigma to another, by the classical method of
// Runge and Kutta in steps fine enough for every digit that is compared.
func (m Mixture) Flow(x, from, to float64) float64 {
	const steps = 4000
	h := (to - from) / steps
	for i := range steps {
		s := from + float64(i)*h
		a := m.Velocity(x, s)
		b := m.Velocity(x+h/2*a, s+h/2)
		c := m.Velocity(x+h/2*b, s+h/2)
		d := m.Velocity(x+h*c, s+h)
		x += h / 6 * (a + 2*b + 2*c + d)
	}
	return x
}
