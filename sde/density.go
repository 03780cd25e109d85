package sde

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// The log-probability of a transition, a mean over the elements (published code averages;
// a sum would make it depend on the size of the picture), with d = next - mean, τ = Noise:
//
//	Gaussian      mean of -d²/(2τ²) - ln τ - ln √(2π)
//	Unnormalised  mean of -d²/(2τ²): without the constants (a stray statement in MixGRPO's
//	              dance kernel; verl-omni's option)
//	Square        mean of -d²: FlowCPS, which drops the deviation
//	None          0: a deterministic step
//
// and its gradient by the mean. KL of two transitions with one deviation is the mean of
// (mean - mean')²/(2·KLDeviation²).
//
// Invariant (tests): gradients agree with finite differences.

// Density is a form of the log-probability.
type Density uint8

// The forms.
const (
	None Density = iota
	Gaussian
	Unnormalised
	Square
)

func (d Density) String() string { return [...]string{"none", "gaussian", "unnormalised", "square"}[d] }

var logRoot2Pi = portable.Log(math.Sqrt(2 * math.Pi))

// LogProb is the log-probability of next under a mean.
func (r Row) LogProb(mean, next []float64) float64 {
	if r.Density == None || len(mean) == 0 {
		return 0
	}
	sum := 0.0
	for i, m := range mean {
		d := next[i] - m
		sum += float64(d * d)
	}
	sum /= float64(len(mean))
	if r.Density == Square {
		return -sum
	}
	lp := -sum / (2 * r.Noise * r.Noise)
	if r.Density == Gaussian {
		lp -= portable.Log(r.Noise) + logRoot2Pi
	}
	return lp
}

// LogProbGrad is its gradient by the mean.
func (r Row) LogProbGrad(mean, next []float64) []float64 {
	g := make([]float64, len(mean))
	scale := 0.0
	switch r.Density {
	case Square:
		scale = 2
	case Gaussian, Unnormalised:
		scale = 1 / (r.Noise * r.Noise)
	}
	for i, m := range mean {
		g[i] = scale * (next[i] - m) / float64(len(mean))
	}
	return g
}

// KL is the divergence of two transitions that differ in their means.
func (r Row) KL(mean, other []float64) float64 {
	sum := 0.0
	for i, m := range mean {
		d := m - other[i]
		sum += float64(d * d)
	}
	return sum / float64(len(mean)) / (2 * r.KLDeviation * r.KLDeviation)
}
