package sde

import "github.com/darkroom-rl/darkroom/portable"

// Schedule is the times that a sampler stops at.
type Schedule struct {
	// Sigmas are T+1: of noise in flows, from 1 (noise alone) to the terminal value.
	Sigmas []float64
	// Timesteps are the network's input at each of the T steps.
	Timesteps []float64
	// Alpha and AlphaPrev are the shares of signal (products of alphas) before and after
	// each of the T steps of a variance-preserving schedule; nil for flows. A step need not
	// begin where the one before it ended: spacings round.
	Alpha, AlphaPrev []float64
}

// Steps is T.
func (s Schedule) Steps() int {
	if s.Alpha != nil {
		return len(s.Alpha)
	}
	return len(s.Sigmas) - 1
}

// Shift moves times towards noise: k·t / (1 + (k-1)·t). k = 1 is the identity.
func Shift(k, t float64) float64 { return k * t / (1 + float64((k-1)*t)) }

// linspace is n numbers from a to b.
func linspace(a, b float64, n int) []float64 {
	x := make([]float64, max(n, 0))
	for i := range x {
		x[i] = a
		if n > 1 {
			x[i] = a + (b-a)*float64(i)/float64(n-1)
		}
	}
	if n > 1 {
		x[n-1] = b
	}
	return x
}

// Linspace32 is PyTorch's: fp32, with one rounding of a product and a sum, and counted from its end in the second half.
func Linspace32(a, b float32, n int) []float32 {
	x := make([]float32, max(n, 0))
	step := float32(0)
	if n > 1 {
		step = (b - a) / float32(n-1)
	}
	for i := range x {
		if from := float64(step); i < n/2 {
			x[i] = float32(float64(a) + float64(from*float64(i)))
		} else {
			x[i] = float32(float64(b) - float64(from*float64(n-1-i)))
		}
	}
	return x
}

// lambda is half the logarithm of the signal-to-noise ratio of a flow.
func lambda(sigma float64) float64 { return portable.Log(1-sigma) - portable.Log(sigma) }
