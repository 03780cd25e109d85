package sde

import (
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
